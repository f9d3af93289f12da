"""Checkpoints as earlier versions wrote them, to be gone on with for ever: a pipeline that has read the first of its two files.

    python tests/spark/kept_checkpoints.py 0.1.0     writes tests/spark/kept/0.1.0.tar.gz, which is never written again

Spark keeps whole paths in a checkpoint; in the archive they begin with a word that stands for the folder it is unpacked to.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from pipelines import FREE, PAIRS, WAITS, add_file, write_pipeline

from seqube.generate import generate

KEPT = Path(__file__).with_name("kept")
PLACE = "seqube-kept-here"
COUNTED = PAIRS.replace("RETURN r.id AS tool, r.ts AS a, w.ts AS b", "AGG COUNT(*) AS n GROUP BY r.id")
EVERY = COUNTED + " EMIT EVERY 10 min"
QUERIES = {"pairs": PAIRS, "waits": WAITS, "free": FREE, "counted": COUNTED, "every": EVERY}


def move(folder: Path, before: str, after: str) -> None:
    """Let paths in the texts of a folder begin elsewhere; sums that Hadoop keeps beside its files would no longer be right."""
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        if file.suffix == ".crc":
            file.unlink()
            continue
        data = file.read_bytes()
        if before.encode() in data:
            file.write_text(data.decode().replace(before, after))


def unpack(version: str, folder: Path) -> None:
    with tarfile.open(KEPT / f"{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    move(folder / "out" / "checkpoint", PLACE, str(folder).lstrip("/"))


def write(version: str) -> None:
    from seqube.spark import session
    from seqube.spark.streaming.declaration import read_declaration
    from seqube.spark.streaming.pipeline import run_stream
    from seqube.spark.streaming.rescaling import rescale

    target = KEPT / f"{version}.tar.gz"
    assert not target.exists(), f"{target} is kept for ever"
    folder = Path(tempfile.mkdtemp())
    table = generate("hospital", 400, seed=3)
    spark = session(**{"spark.sql.shuffle.partitions": 1})
    add_file(folder, "0", table.slice(0, 200))
    declared = read_declaration(write_pipeline(folder, QUERIES))
    rescale(declared, 2, spark)  # few buckets make a small archive
    run_stream(declared, spark=spark)
    spark.stop()
    add_file(folder, "1", table.slice(200))
    move(folder / "out" / "checkpoint", str(folder).lstrip("/"), PLACE)
    (folder / "out" / "checkpoint" / "seqube.lock").unlink()
    KEPT.mkdir(exist_ok=True)
    with tarfile.open(target, "w:gz") as archive:
        for name in ("in", "out"):
            archive.add(folder / name, name)


if __name__ == "__main__":
    write(sys.argv[1])
