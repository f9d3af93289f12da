"""Seqube on Spark. Importing this is cheap: PySpark is imported, and a JVM started, by the first call that needs it."""

from seqube.spark.session import session

__all__ = ["session"]
