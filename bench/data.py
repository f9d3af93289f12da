"""The real events that benchmarks are run on: where they lie, and what is said when they do not."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(os.environ.get("SEQUBE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
TRACE = DATA / "stock_trace_wpi.parquet"


def stock_trace() -> pa.Table | None:
    """A day of real trades, or None, having said so."""
    if TRACE.exists():
        return pq.read_table(TRACE)
    print(f"no real trades in {DATA}: SEQUBE_DATA names the folder")
    return None
