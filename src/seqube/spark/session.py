"""A Spark session, set up so that Spark's usual traps are out of the way. Your own session works too.

Python workers run this very interpreter, times are UTC everywhere, rows travel as Arrow, streaming state is kept in RocksDB, and
Java is found or brought along (`seqube.spark.java`). The first call starts a JVM (some seconds); later calls return the session
that runs.

Invariant: ours are defaults. What the user has set, wherever Spark lets one set it (arguments, spark-submit, PYSPARK_SUBMIT_ARGS,
spark-defaults.conf, the environment), stays as it is.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from seqube.arguments import Answered, Given, checked
from seqube.errors import PlanError, warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Setting = bool | float | str
# Names that are not imported before they are needed, and where they come from.
_HOMES = {"DataFrame": "pyspark", "SparkSession": "pyspark", "Hierarchy": "seqube", "Limits": "seqube"}
HANDED = "seqube-kernels"  # the folder of compiled loops in the working folder of an executor
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"  # writes the files of checkpoints
_LOCAL_FILES = "spark.hadoop.fs.file.impl"
_RENAMES = "org.apache.hadoop.fs.LocalFileSystem"  # onto a file that is there, too; Hive's, which Spark comes with, does not
_JAVA_SETTINGS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")  # variables of the JVM's options
_SHORT = {  # options of spark-submit that are settings
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--deploy-mode": "spark.submit.deployMode",
    "--remote": "spark.remote",
    "--archives": "spark.archives",
}


def checked_on_spark(function: Callable[Given, Answered]) -> Callable[Given, Answered]:
    """As `checked`, where what Spark's classes are is known by their names: importing them is not cheap."""
    return checked(function, _HOMES)


@checked
def session(app_name: str = "seqube", **config: bool | float | str) -> SparkSession:
    """The session that runs, as it is; or a new one, in this machine unless it was said otherwise.

    - `app_name`: what Spark calls it.
    - `config`: Spark's settings: `session(**{"spark.master": "spark://host:7077"})`. What is set here, by spark-submit, or in
      spark-defaults.conf goes before what Seqube would set.

    >>> sqs.session().conf.get("spark.sql.session.timeZone")
    'UTC'
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from seqube.spark.failures import explain_failure, text_of

    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:  # of another thread
        running = SparkSession.builder.getOrCreate()
    if running is not None:
        _compare(running, config)
        return running
    chosen = {**users_settings(), **config}
    remote = chosen.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    settings: Mapping[str, Setting]
    if remote:
        settings = {"spark.remote": str(remote), **_RUNTIME, **config}
    else:
        _set_up_machine(chosen)
        ours = {"spark.app.name": app_name, **_RUNTIME, **_defaults(chosen)}
        settings = {**{name: value for name, value in ours.items() if name not in chosen}, **config, **_kernels(chosen)}
    try:
        with _deaf_java():
            started = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        said = ", ".join(f"{name}={value}" for name, value in config.items()) or "its own settings"
        why = explain_failure(text_of(error), None)
        raise PlanError(
            f"Spark does not start with {said}: {why}\n  hint: look at what Spark said above, and at these settings"
        ) from error
    if not remote and settings.get(_LOCAL_FILES) == _RENAMES and _MANAGER not in chosen:
        _quicken_checkpoints(started)
    return started


# Settings that a session can also be given while it runs, or by another machine.
_RUNTIME: Mapping[str, Setting] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",  # a sixth less to hand rows over than by Spark's 10,000
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def _defaults(chosen: Mapping[str, Setting]) -> dict[str, Setting]:
    """What a session of ours is started with where nothing else was chosen."""
    from seqube.engine.jit import cache_folder

    master = str(chosen.get("spark.master", "local[*]"))
    quiet = Path(__file__).with_name("log4j2.properties")
    ours: dict[str, Setting] = {
        "spark.master": master,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dlog4j2.configurationFile={quiet}",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
    }
    if master.startswith("local"):  # executors elsewhere must find the driver, have a folder of their own, and many cores
        ours |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        ours["spark.executorEnv.SEQUBE_CACHE"] = str(cache_folder().parent)
        # Spark's 200 partitions are meant for clusters; in one machine they are 200 small tasks, one after the other.
        ours["spark.sql.shuffle.partitions"] = str(max(4, os.cpu_count() or 4))
        ours[_LOCAL_FILES] = _RENAMES
        # Its workers need the cores that G1 collects garbage with: on two cores, counts take a tenth less. A JVM that is told of
        # two collectors does not start.
        told = [str(chosen.get("spark.driver.defaultJavaOptions", "")), *(os.environ.get(name, "") for name in _JAVA_SETTINGS)]
        if not any("GC" in options for options in told):
            ours["spark.driver.extraJavaOptions"] = f"{ours['spark.driver.extraJavaOptions']} -XX:+UseParallelGC"
    return ours


def _kernels(chosen: Mapping[str, Setting]) -> dict[str, Setting]:
    """What executors on other machines are handed: the loops that are compiled here, in a folder of their own work, never in HOME.

    Who hands them a folder otherwise, or wants none, sets `spark.executorEnv.SEQUBE_CACHE`.
    """
    if str(chosen.get("spark.master", "local")).startswith("local") or "spark.executorEnv.SEQUBE_CACHE" in chosen:
        return {}
    from seqube.warming import pack_kernels

    place = Path(tempfile.mkdtemp(prefix="seqube-kernels-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    if not pack_kernels(place / "kernels.zip"):
        warn("nothing is compiled yet, so each executor will compile what it needs\n  hint: seqube warm, before Spark is started")
    theirs = chosen.get("spark.archives")
    ours = f"{place / 'kernels.zip'}#{HANDED}"
    return {"spark.archives": f"{theirs},{ours}" if theirs else ours, "spark.executorEnv.SEQUBE_CACHE": HANDED}


def _set_up_machine(chosen: Mapping[str, Setting]) -> None:
    """What Spark reads from the environment when it starts the JVM and the workers; its own defaults are whatever PATH holds."""
    from seqube.spark.java import find_java

    if "spark.pyspark.python" not in chosen:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started one
        os.environ["JAVA_HOME"] = str(find_java().path)
    if str(chosen.get("spark.master", "local")).startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _quicken_checkpoints(spark: SparkSession) -> None:
    """Let files of checkpoints on the disk of this machine be written without other programs.

    Spark starts several for each file: 37 ms a file, and a micro-batch has five. Renaming is as atomic there, if it is asked of the
    file system itself. No file gets a sum beside it: it would be renamed after the file, and a kill between the two would leave the
    sum of the bytes before, by which Spark would refuse the file for ever.
    """
    jvm: Any = spark._jvm
    here, settings = jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileSystem.get(here, settings)
    if files.getClass().getName() == _RENAMES:  # unless somebody in this JVM was before us
        files.setWriteChecksum(False)
        manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        spark.conf.set(_MANAGER, manager)


@contextmanager
def _deaf_java() -> Iterator[None]:
    """PySpark starts Java so that it does not hear Ctrl-C; meanwhile it is started so that it does not hear SIGTERM either.

    Who ends a whole group of processes politely would end Java in the middle of what Python then wants to stop in order, with pages
    of errors. It ends when Python does.
    """
    from pyspark import java_gateway

    gateway: Any = java_gateway
    popen = gateway.Popen

    def start(*command: Any, preexec_fn: Callable[[], None] | None = None, **how: Any) -> Any:
        def prepare() -> None:
            assert preexec_fn is not None
            preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        return popen(*command, preexec_fn=None if preexec_fn is None else prepare, **how)  # Windows has none

    gateway.Popen = start
    try:
        yield
    finally:
        gateway.Popen = popen


# ---------------------------------------------------------------- what the user has set


def users_settings() -> dict[str, str]:
    """The settings that a session would have without any of ours."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which knows them all
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return {**_of_file(_defaults_file()), **_of_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))}


def _defaults_file() -> Path | None:
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder) / "spark-defaults.conf"
    home = os.environ.get("SPARK_HOME")
    return Path(home) / "conf" / "spark-defaults.conf" if home else None


def _of_file(path: Path | None) -> dict[str, str]:
    """Java's properties, as far as anybody writes them in this file: a name, blanks or = or :, a value."""
    try:
        text = path.read_text(encoding="utf-8") if path is not None else ""
    except OSError:
        return {}
    return dict(re.findall(r"^\s*(spark\.[^\s=:]+)[ \t]*[\s=:][ \t]*(.*?)\s*$", text, flags=re.MULTILINE))


def _of_arguments(text: str) -> dict[str, str]:
    """The settings among arguments of spark-submit."""
    words = [part for word in shlex.split(text) for part in (word.split("=", 1) if word.startswith("--") else [word])]
    found: dict[str, str] = {}
    for option, value in pairwise(words):
        if option in ("--conf", "-c"):
            name, _, setting = value.partition("=")
            found[name] = setting
        elif option in _SHORT:
            found[_SHORT[option]] = value
    return found


def _compare(running: SparkSession, config: Mapping[str, Setting]) -> None:
    """Say which of these settings come too late for a session that runs."""
    late = [name for name, value in config.items() if str(running.conf.get(name, "")) != str(value)]
    if late:
        warn(f"Spark runs already, with another {', '.join(late)} than was asked for now\n  hint: stop that session first")


# ---------------------------------------------------------------- what Spark's pages show


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Jobs that are started meanwhile are called so on the pages of Spark; through Spark Connect they have no other name."""
    context: Any = None if ".connect." in type(spark).__module__ else spark.sparkContext
    if context is None:
        yield
        return
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setJobDescription(before)


def step_of(queries: Iterable[str], step: str) -> str:
    """What the jobs of a step of a batch are called: by its queries, the first of them where they are many."""
    named = shorten(", ".join(name for name in queries if name), 100, placeholder=" ...")
    return ": ".join(part for part in ("seqube", named, step) if part)


@contextmanager
def hushed(spark: SparkSession) -> Iterator[None]:
    """Spark logs nothing meanwhile: what is stopped in the middle of its work says so with hundreds of lines that mean nothing."""
    context: Any = None if ".connect." in type(spark).__module__ else spark.sparkContext
    if context is None or context._jvm is None:
        yield
        return
    before = context._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    context.setLogLevel("OFF")
    try:
        yield
    finally:
        context.setLogLevel(before)
