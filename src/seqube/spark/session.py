"""A Spark session in this machine, set up so that Spark's usual traps are out of the way. Your own session works too.

Python workers run this very interpreter, times are UTC everywhere, rows travel as Arrow, streaming state is kept in RocksDB, and
Java is found or brought along (`seqube.spark.java`). The first call starts a JVM (some seconds); later calls return the session
that runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(app_name: str = "seqube", **config: bool | float | str) -> SparkSession:
    """The active session as it is, or a new one, in this machine unless `spark.master` says otherwise.

    - `app_name`: what Spark calls it.
    - `config`: Spark's settings, which override ours: `session(**{"spark.driver.memory": "8g"})`.

    >>> sqs.session().conf.get("spark.sql.session.timeZone")
    'UTC'
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active

    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from seqube.engine.jit import cache_folder
    from seqube.errors import PlanError
    from seqube.spark.failures import explain_failure
    from seqube.spark.java import find_java

    # Spark reads these when it starts the JVM and the workers, and its own defaults are whatever PATH holds.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(find_java().path)
    loopback: dict[str, str] = {}
    if str(config.get("spark.master", "local")).startswith("local"):  # executors elsewhere must find the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        loopback = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

    quiet = Path(__file__).with_name("log4j2.properties")
    settings: dict[str, bool | float | str | None] = {
        "spark.master": "local[*]",
        "spark.app.name": app_name,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dlog4j2.configurationFile={quiet}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.SEQUBE_CACHE": str(cache_folder().parent),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",  # a sixth less to hand rows over than by Spark's 10,000
        # Spark's 200 partitions are meant for clusters; in one machine they are 200 small tasks, one after the other.
        "spark.sql.shuffle.partitions": str(max(4, os.cpu_count() or 4)),
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    try:
        return SparkSession.builder.config(map={**settings, **loopback, **config}).getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        chosen = ", ".join(f"{name}={value}" for name, value in config.items()) or "its own settings"
        why = explain_failure(str(error), None)
        raise PlanError(
            f"Spark does not start with {chosen}: {why}\n  hint: look at what Spark said above, and at these settings"
        ) from error
