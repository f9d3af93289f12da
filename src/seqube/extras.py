"""What is installed beside the engine: extras, each with the packages that it brings and what they are for.

    need("plot")        before the import: where a package of it is missing, the error names the extra to install

An extra is looked for, not imported, so that asking is cheap. `pyproject.toml` says which versions; a test holds both together.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from seqube.errors import PlanError


class Extra(NamedTuple):
    packages: tuple[str, ...]  # as they are imported: one of an extra's packages that is missing is reason enough
    purpose: str


EXTRAS = {
    "explorer": Extra(("nicegui",), "the page"),
    "kafka": Extra(("confluent_kafka",), "Kafka without Spark's connector"),
    "pandas": Extra(("pandas",), "a pandas DataFrame"),
    "plot": Extra(("altair",), "a chart"),
    "polars": Extra(("polars",), "a polars DataFrame"),
    "postgres": Extra(("psycopg",), "a table of PostgreSQL"),
    "spark": Extra(("pyspark",), "work on Spark"),
    "sql": Extra(("duckdb", "sqlglot"), "SQL"),
}


def need(extra: str) -> None:
    """Refuse to go on without the packages of an extra, and say how to install them."""
    wanted = EXTRAS[extra]
    missing = [package for package in wanted.packages if find_spec(package) is None]
    if missing:
        raise PlanError(
            f"{wanted.purpose} needs {' and '.join(missing)}, which is not installed\n  hint: pip install 'seqube[{extra}]'"
        )
