"""Another number of buckets for the state of a stream that has stopped: its state is cut anew, and the next start goes on with it.

Buckets are a hash of the key, so that other buckets take other rows from each of those that there were. What a section of the
stream remembered is read from its checkpoint, its rows are hashed again and sent to their new buckets, and a stream of a single
micro-batch (`Settling`) writes them where the next section of the stream will look for them:

    state of section 0 -> rows of chunks -> by their new buckets -> state of section 1
    offsets, commits   ------------------------------------------> offsets, commits

How far Spark has read is copied as it is, with a micro-batch that was begun and not finished: the next section repeats it with the
same rows, the same state and the same number. The mark of the checkpoint turns to the new section at the very end; whatever ends it
before, the stream goes on as it was.

A query without a key has one bucket, which comes along as it is. So do the buckets of one that keeps numbers in the place of events
(counters that are smaller, windows of EVENTS): they cannot be cut, and it goes on with as many as it had.

Cost: one pass over the state. Invariant: the stream finds what it would have found without this, each match once.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from seqube.engine.sequence import LOWEST
from seqube.errors import DataError, SchemaError
from seqube.spark import ingest
from seqube.spark.batch import in_worker
from seqube.spark.failures import spark_errors
from seqube.spark.session import described
from seqube.spark.sinks import is_url
from seqube.spark.streaming.checkpoint import SECTION, Section, begin_section, hold
from seqube.spark.streaming.declaration import Declaration
from seqube.spark.streaming.held import Held
from seqube.spark.streaming.pipeline import prepare_stream
from seqube.spark.streaming.stream import Buckets, Chunks, timer_for, with_state
from seqube.spark.streaming.watch import Watch, adapt
from seqube.spark.transport.blobs import gather_batches, read_blobs, write_blob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import TimerValues

MOST_BUCKETS = 1 << 16
WHOLE = -1  # the part that a bucket is of itself
PIECES = "query string, bucket int, part int, number long, piece long, held string, engine binary, timer long, blob binary"
# Of a row: its old bucket, its chunk there, its place in that, and the hash of its key.
OLD_BUCKET, OLD_CHUNK, OLD_ROW, KEY_HASH = "#bucket", "#chunk", "#place", "#hash"
LOGS = ("metadata", "offsets", "commits", "sources", "state")  # what Spark keeps in a checkpoint
PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Rescaled:
    """How many buckets there are now, and before; and the queries that go on with those they had."""

    buckets: int
    before: int
    uncut: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"the state of queries with a key is kept in {self.buckets} buckets ({self.before} before)"
        if self.uncut:
            said += f"; that of {', '.join(self.uncut)} holds numbers in the place of events, and stays as it was cut"
        return said


def rescale(declared: Declaration, n_buckets: int, spark: SparkSession) -> Rescaled:
    """Cut the state of a stream that has stopped into so many buckets."""
    if not 1 <= n_buckets <= MOST_BUCKETS:
        raise SchemaError(
            f"a stream has 1 to {MOST_BUCKETS:,} buckets, not {n_buckets:,}\n  hint: about twice the cores of the cluster"
        )
    checkpoint = declared.checkpoint
    if checkpoint is None or is_url(checkpoint):
        what = "has no checkpoint" if checkpoint is None else f"has its checkpoint at a URL, {checkpoint}"
        raise SchemaError(f"{declared.file} {what}: its state cannot be cut anew\n  hint: checkpoint: a folder of a file system")
    with hold(checkpoint), spark_errors(declared.path):
        source, section, stream = prepare_stream(declared, spark, n_buckets)
        before = Path(section.folder)
        if not any((before / "offsets").glob("[0-9]*")):  # nothing is remembered yet
            begin_section(checkpoint, replace(section, folder=_next_folder(checkpoint), buckets=n_buckets))
            return Rescaled(n_buckets, section.buckets)
        after = Path(_next_folder(checkpoint))
        shutil.rmtree(after, ignore_errors=True)
        last = _last(before / "commits")
        own: dict[str, int] = {}
        uncut: list[str] = []
        if last is not None:
            state = _State(spark, before, last, stream.watches)
            whole = state.uncut()
            uncut = [name for name in whole if stream.watches[name].n_buckets != n_buckets]
            own = {stream.watches[name].fingerprint: stream.watches[name].n_buckets for name in uncut}
            with described(spark, f"{declared.file.stem}: {n_buckets} buckets"):
                _settle(spark, state.pieces(n_buckets, whole, source), stream.watches, after)
        _carry_on(before, after, last, str(spark.conf.get(PARTITIONS)))
        begin_section(checkpoint, Section(str(after), n_buckets, section.first + (last or 0), own))
        _clear(Path(checkpoint), after)
    return Rescaled(n_buckets, section.buckets, tuple(uncut))


# ---------------------------------------------------------------- what there was


@dataclass(frozen=True)
class _State:
    """What a section of a stream remembered after a micro-batch."""

    spark: SparkSession
    folder: Path
    batch: int
    watches: Mapping[str, Watch]

    def _read(self, variable: str) -> DataFrame:
        reader = self.spark.read.format("statestore").option("stateVarName", variable).option("batchId", self.batch)
        return reader.load(str(self.folder))

    def _about(self) -> DataFrame:
        """What is remembered of queries that are there now as they were; the rest is stale."""
        known = reduce(
            lambda all_, name: (
                all_ | ((ingest.column("query") == name) & (ingest.column("fingerprint") == self.watches[name].fingerprint))
            ),
            self.watches,
            _false(),
        )
        about = self._read("about").select("key.query", "key.bucket", "value.*")
        return about.where(known)

    def uncut(self) -> list[str]:
        """Queries of which some bucket holds numbers in the place of events."""
        rows = self._about().where("engine IS NOT NULL").select("query").distinct().collect()
        return [row["query"] for row in rows if self.watches[row["query"]].needs.key]

    def pieces(self, n_buckets: int, uncut: Iterable[str], source: ingest.EventFrame) -> DataFrame:
        """All of it, by the buckets that it goes to."""
        stay = [name for name, watch in self.watches.items() if not watch.needs.key or name in uncut]
        about = self._about()
        is_whole = ingest.column("query").isin(*stay)
        chunks = self._read("chunks").selectExpr("key.query", "key.bucket", "user_map_key.number", "user_map_value.blob")
        whole = about.where(is_whole).selectExpr(
            "query",
            "bucket",
            f"{WHOLE} AS part",
            "0L AS number",
            "0L AS piece",
            "held",
            "engine",
            "timer",
            "CAST(NULL AS binary) AS blob",
        )
        kept = chunks.where(is_whole).join(about.select("query", "bucket"), ["query", "bucket"], "left_semi")
        nothing = "CAST(NULL AS string) AS held", "CAST(NULL AS binary) AS engine", "CAST(NULL AS long) AS timer"
        found = whole.unionByName(kept.selectExpr("query", "bucket", f"{WHOLE} AS part", "number", "0L AS piece", *nothing, "blob"))
        moving = about.where(~is_whole).select("query", "bucket", "held").collect()
        for name, watch in self.watches.items():
            helds = {row["bucket"]: Held.from_text(row["held"], None) for row in moving if row["query"] == name}
            if helds:
                told = list(tell(name, helds, watch.n_buckets, n_buckets))
                found = found.unionByName(self.spark.createDataFrame(told, PIECES))
                own = chunks.where(ingest.column("query") == name).select("bucket", "number", "blob")
                found = found.unionByName(cut_chunks(own, watch, helds, n_buckets, source))
        return found


def _false() -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(False)


def tell(name: str, helds: Mapping[int, Held], before: int, after: int) -> Iterator[Row]:
    """What each bucket knows beside its rows, for all buckets that some of its keys can be in now."""
    step = math.gcd(before, after)
    for bucket, held in helds.items():
        about = replace(held, chunks=(), next=0, marks=(), covered=LOWEST).to_text()
        for new in range(bucket % step, after, step):
            yield Row(query=name, bucket=new, part=bucket, number=-1, piece=0, held=about, engine=None, timer=None, blob=None)


# ---------------------------------------------------------------- rows to their new buckets


def cut_chunks(chunks: DataFrame, watch: Watch, helds: Mapping[int, Held], n_buckets: int, source: ingest.EventFrame) -> DataFrame:
    """The rows of chunks, by their new buckets."""
    from pyspark.sql.pandas.types import from_arrow_schema

    places = pa.schema([pa.field(OLD_BUCKET, pa.int32()), pa.field(OLD_CHUNK, pa.int64()), pa.field(OLD_ROW, pa.int64())])
    schema = pa.schema([*watch.schema, *places])
    rows = chunks.mapInArrow(in_worker(lambda batches: unpack_chunks(batches, watch, helds)), from_arrow_schema(schema))
    hashed = rows.withColumn(KEY_HASH, ingest.key_hash(watch.needs.key, source))
    return hashed.mapInArrow(in_worker(lambda batches: pack_chunks(batches, watch, n_buckets)), PIECES)


def unpack_chunks(batches: Iterable[pa.RecordBatch], watch: Watch, helds: Mapping[int, Held]) -> Iterator[pa.RecordBatch]:
    """Rows that are still of use, and where they were."""
    for batch in batches:
        for bucket, number, blob in zip(*(batch.column(name) for name in ("bucket", "number", "blob")), strict=True):
            held = helds.get(bucket.as_py())
            if held is None:
                continue
            table = adapt(pa.ipc.open_stream(blob.as_buffer()).read_all(), watch.schema)
            if held.covered > LOWEST:  # what was decided up to there is of no use to anyone
                table = table.filter(pa.array(watch.keeping.times(table) > held.covered))
            n = table.num_rows
            table = table.append_column(OLD_BUCKET, pa.array(np.full(n, bucket.as_py(), np.int32)))
            table = table.append_column(OLD_CHUNK, pa.array(np.full(n, number.as_py(), np.int64)))
            yield from table.append_column(OLD_ROW, pa.array(np.arange(n))).to_batches()


def pack_chunks(batches: Iterable[pa.RecordBatch], watch: Watch, n_buckets: int) -> Iterator[pa.RecordBatch]:
    """Rows with the hash of their key -> a blob for each new bucket, old bucket and chunk."""
    for table in gather_batches(batches):
        hashes, parts, numbers = (table.column(name).to_numpy() for name in (KEY_HASH, OLD_BUCKET, OLD_CHUNK))
        if np.any(hashes % watch.n_buckets != parts):
            raise DataError(
                f"the keys of the query {watch.name!r} have other hashes than when they were remembered: its state cannot be cut\n"
                "  hint: go on with the number of buckets that there is"
            )
        buckets = hashes % n_buckets
        order = np.lexsort((table.column(OLD_ROW).to_numpy(), numbers, parts, buckets))
        places = np.stack([buckets, parts, numbers])[:, order]
        starts = np.flatnonzero(np.concatenate([[True], np.any(places[:, 1:] != places[:, :-1], axis=0)]))
        sent = adapt(table.select(watch.schema.names), watch.schema).take(pa.array(order))
        first = table.column(OLD_ROW).to_numpy()[order]
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            bucket, part, number = (int(place) for place in places[:, start])
            yield _piece(watch.name, bucket, part, number, int(first[start]), write_blob(sent.slice(start, stop - start)))


def _piece(query: str, bucket: int, part: int, number: int, piece: int, blob: bytes) -> pa.RecordBatch:
    columns = {
        "query": pa.array([query]),
        "bucket": pa.array([bucket], pa.int32()),
        "part": pa.array([part], pa.int32()),
        "number": pa.array([number], pa.int64()),
        "piece": pa.array([piece], pa.int64()),
        "held": pa.nulls(1, pa.string()),
        "engine": pa.nulls(1, pa.binary()),
        "timer": pa.nulls(1, pa.int64()),
        "blob": pa.array([blob], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


# ---------------------------------------------------------------- what there will be


def folded(parts: Iterable[Held]) -> Held:
    """What a bucket that is made of parts of others remembers, beside their rows.

    At rest, whatever is due up to the watermark is out, in all of them: all are as far as the one that has decided the most.
    """
    told = list(parts)
    wakes = [held.wake for held in told if held.wake is not None]
    latest = {name: max(getattr(held, name) for held in told) for name in ("decided", "reported", "last")}
    return Held(**latest, wake=min(wakes, default=None))


class Settling(Buckets):
    """The same operator where a section of a stream begins: what comes in is what the buckets of another section remembered.

    A bucket that was one before comes as it was, with its timer; others are made of the rows of several.
    """

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        watch = self._watches()[key[0]]
        pieces = sorted(rows, key=lambda row: (row["part"], row["number"], row["piece"]))
        store = Chunks(self._chunks)
        whole = [row for row in pieces if row["part"] == WHOLE]
        if whole:
            for row in whole:
                if row["held"] is None:
                    store[row["number"]] = bytes(row["blob"])
                else:
                    held = Held.from_text(row["held"], None if row["engine"] is None else bytes(row["engine"]))
                    self._set(row["timer"], None, (watch.fingerprint, held))
        else:
            told = folded(Held.from_text(row["held"], None) for row in pieces if row["held"] is not None)
            tables = (read_blobs([bytes(row["blob"])]) for row in pieces if row["blob"] is not None)
            outcome = watch.settle(told, (table for table in tables if table is not None), store)
            assert outcome.held is not None
            self._set(timer_for(outcome.wake, watch.keeping.schema.unit, 0), None, (watch.fingerprint, outcome.held))
        yield from ()


def _settle(spark: SparkSession, pieces: DataFrame, watches: Mapping[str, Watch], folder: Path) -> None:
    """Write the state of the next section, as the only micro-batch of a stream with the same operator."""
    from pyspark.sql import functions as F  # noqa: N812

    place = folder.with_name(f"{folder.name}-pieces")
    try:
        pieces.write.mode("overwrite").parquet(str(place))
        came = spark.readStream.schema(PIECES).parquet(str(place))
        # The operator asks for a watermark. This one never moves, so that no timer goes off.
        came = came.withColumn("#moment", F.timestamp_micros(F.lit(0))).withWatermark("`#moment`", "0 seconds").drop("#moment")
        out = with_state(came, Settling(lambda: watches))
        query = out.writeStream.format("noop").option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if _last(folder / "commits") != 0:
        raise DataError(f"the state in {folder} was not written in one micro-batch\n  hint: the stream goes on as it was")


def _carry_on(before: Path, after: Path, last: int | None, partitions: str) -> None:
    """Copy how far Spark is: the last micro-batch that was finished becomes number 0, one that was begun follows it."""
    for name in ("metadata", "offsets", "commits", "sources"):
        place = after / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
        (after / f".{name}.crc").unlink(missing_ok=True)
    for name in ("offsets", "commits"):
        (after / name).mkdir(parents=True)
    shutil.copy(before / "metadata", after / "metadata")
    if (before / "sources").exists():
        shutil.copytree(before / "sources", after / "sources")
    first = last or 0
    for number in range(first, (_last(before / "offsets") or 0) + 1):
        version, about, *offsets = (before / "offsets" / str(number)).read_text(encoding="utf-8").split("\n")
        known = json.loads(about)
        known["conf"] = {**known.get("conf", {}), PARTITIONS: partitions}
        text = "\n".join([version, json.dumps(known, separators=(",", ":")), *offsets])
        (after / "offsets" / str(number - first)).write_text(text, encoding="utf-8")
    if last is not None:
        shutil.copy(before / "commits" / str(last), after / "commits" / "0")


def _last(log: Path) -> int | None:
    return max((int(file.name) for file in log.glob("[0-9]*") if file.name.isdigit()), default=None)


def _next_folder(checkpoint: str) -> str:
    numbers = [
        int(path.name.rpartition("-")[2])
        for path in Path(checkpoint).glob(f"{SECTION}-*")
        if path.name[len(SECTION) + 1 :].isdigit()
    ]
    return str(Path(checkpoint) / f"{SECTION}-{max(numbers, default=0) + 1}")


def _clear(checkpoint: Path, kept: Path) -> None:
    """Remove what sections leave behind that are over, or were never begun."""
    for place in [*(checkpoint / name for name in LOGS), *checkpoint.glob(f"{SECTION}-*")]:
        if place.is_dir() and place != kept:
            shutil.rmtree(place, ignore_errors=True)
        elif place.is_file():
            place.unlink()
            (checkpoint / f".{place.name}.crc").unlink(missing_ok=True)
