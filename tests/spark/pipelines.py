"""Pipelines in a folder: their file, the files that come in, what they wrote and what they should have."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tables import plain

import seqube as sq

PAIRS = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min RETURN r.id AS tool, r.ts AS a, w.ts AS b"
WAITS = "SEQ(Recycle r, !Operate o, [id]) WITHIN 2 h RETURN r.id AS tool, r.ts AS a"
FREE = "SEQ(Check c, Operate o) WITHIN 2 min RETURN c.id AS x, o.id AS y"


def write_pipeline(folder: Path, queries: dict[str, str], **more: Any) -> Path:
    declared = {
        "source": {"format": "parquet", "path": "in", "lateness": "1 minute", "options": {"maxFilesPerTrigger": 1}},
        "queries": queries,
        "sinks": {name: {"path": f"out/{name}"} for name in ("matches", "quarantine", "late", "metrics")},
        "trigger": "available now",
        "checkpoint": "out/checkpoint",
        **more,
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(declared))  # JSON is YAML
    return file


def add_file(folder: Path, name: str, table: pa.Table) -> None:
    """A file that appears whole, in the order of its name."""
    (folder / "in").mkdir(exist_ok=True)
    draft = folder / f"{name}.draft"
    pq.write_table(table, draft)
    number = 1_000 + int(name)
    os.utime(draft, (number, number))
    draft.replace(folder / "in" / f"{name}.parquet")


def results(folder: Path, query: str, since: int = 0) -> Counter[str]:
    """What a query has written, since a micro-batch."""
    folders = sorted((folder / "out" / "matches" / query).glob("batch=*"))
    files = [file for batch in folders if int(batch.name[6:]) >= since for file in batch.glob("*.parquet")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return Counter(repr({name: plain(value) for name, value in row.items() if name != "match_id"}) for row in rows)


def expected(table: pa.Table, query: str) -> Counter[str]:
    return Counter(repr(row) for row in sq.run(query, table).table.to_pylist())
