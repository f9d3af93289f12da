"""What all tests share: the Spark session, the data that does not ship, the number of random cases, the kernel cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent

# Whatever is compiled, by a worker of the tests, by one of Spark, by a command, is there for all others.
os.environ.setdefault("SEQUBE_CACHE", str(ROOT / ".seqube" / "cache"))

# A JVM of tests lives for minutes and runs everything a few times: the second compiler and the collector that works beside it cost
# more than they give, about half of its time. What the first compiler alone is given for its code is full after some tests, and a
# tenth of the time goes into making room there.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m")

os.environ.setdefault("SPARK_CONF_DIR", str(ROOT / "tests" / "spark" / "settings"))

# The everyday run is the same every time; asking for more cases means exploring.
asked = os.environ.get("SEQUBE_EXAMPLES")
settings.register_profile(
    "seqube",
    max_examples=int(asked or 30),
    derandomize=asked is None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("seqube")


@pytest.hookimpl(optionalhook=True)  # where xdist is switched off, there is nobody to ask for it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from scheduling import Scheduling

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from seqube.spark import session

    shared = session("seqube-tests", **{"spark.sql.shuffle.partitions": 3})  # tasks of a few rows: more of them only take longer
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets used in development; it is not part of the project."""
    folder = Path(os.environ.get("SEQUBE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; SEQUBE_DATA names the folder")
    return folder
