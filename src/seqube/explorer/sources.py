"""What the page can open: files named on the command line, uploads and generated events, each with queries to start from.

A source is known by its name, and the page asks by name only: no path ever comes from the browser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from seqube.events import Events, Hierarchy
from seqube.events.batch import SAMPLE
from seqube.events.schema import TIME, TYPE, UNITS, is_text
from seqube.generate import KINDS_OF_DATA, generate, hierarchy
from seqube.language.writer import quote
from seqube.predict.rules import Rules

GENERATED = 100_000
SEED = 2026
FEW = 20
WINDOWS_US = {"1 ms": 1e3, "10 ms": 1e4, "100 ms": 1e5, "1 s": 1e6, "10 s": 1e7, "1 min": 6e7, "10 min": 6e8}
WINDOWS_US |= {"1 hour": 3.6e9, "12 hours": 4.32e10, "7 days": 6.05e11, "30 days": 2.6e12}
ENDINGS = (".parquet", ".csv", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Source:
    """Where events come from: a file, or a generator where there is no path. Goes to the worker as it is."""

    name: str
    path: Path | None = None
    kind: str = ""
    type: str = "type"
    time: str = "ts"
    unit: str = "ms"
    concepts: Hierarchy | None = None
    rules: Rules | None = None

    def read(self) -> Events:
        if self.path is None:
            return Events(generate(self.kind, GENERATED, SEED))
        return Events(self.path, type=self.type, time=self.time, unit=self.unit)

    def queries(self, types: tuple[str, ...], window: str, key: str | None = None) -> Mapping[str, str]:
        """Queries to start from: a kind's own, or the two first types in a row, with the same key where there is one."""
        if self.kind:
            return _QUERIES[self.kind]
        first, second = (quote(name) for name in (types * 2)[:2]) if types else ("A", "B")
        pattern = f"SEQ({first} a, {second} b{f', [{quote(key)}]' if key else ''})"
        return {
            "One after the other": f"PATTERN {pattern}\nWITHIN  {window}",
            "How many": f"PATTERN {pattern}\nAGG     COUNT(*)\nWITHIN  {window}\nEMIT    TOTAL",
        }


def window_for(events: Events) -> str:
    """A window to start with, in round figures, that some events lie in, and not so many that matches explode."""
    statistics = events.statistics
    wanted_us = FEW * statistics.span * UNITS[events.unit] / 1_000 / max(statistics.n, 1)
    return next((name for name, us in WINDOWS_US.items() if us >= wanted_us), "365 days")


def key_for(events: Events) -> str | None:
    """The column that seems to say whose events they are: of those with several events for each value, that with the most values.

    Measures are no keys, so only texts and whole numbers are looked at.
    """
    seen = min(len(events), SAMPLE)
    values = {
        name: events.distinct[name]
        for name in events.schema
        if name not in (TYPE, TIME, events.type_column, events.time_column) and _may_be_key(events.column(name).type)
    }
    found = [(count, name) for name, count in values.items() if 2 <= count <= seen / 2]
    return max(found)[1] if found else None


def _may_be_key(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or pa.types.is_integer(kind) or pa.types.is_dictionary(kind))


def generated() -> list[Source]:
    """A source of every kind of generated events, with its concepts and some rules to try."""
    return [
        Source(
            name=f"generated {kind}",
            kind=kind,
            concepts=Hierarchy.from_dict(concepts) if (concepts := hierarchy(kind)) else None,
            rules=Rules.from_dict({"rules": _RULES[kind]}) if kind in _RULES else None,
        )
        for kind in KINDS_OF_DATA
    ]


_QUERIES: dict[str, dict[str, str]] = {
    "stock": {
        "Computers, then finance": """\
PATTERN SEQ(Computer a, Finance b)
WITHIN  20 ms""",
        "Three in a row, same id": """\
PATTERN SEQ(DELL a, IPIX b, QQQ c, [id])
WITHIN  10 s""",
        "Rising, with nothing in between": """\
PATTERN SEQ(DELL a, !QQQ q, DELL b)
WHERE   b.price > a.price
WITHIN  100 ms
RETURN  a.ts AS began, b.ts AS ended, b.price - a.price AS rise""",
        "How many in each second": """\
PATTERN SEQ(DELL a, IPIX b)
AGG     COUNT(*), AVG(b.price) AS mean_price
WITHIN  1 s
EMIT    PER 1 s""",
        "How many by type": """\
PATTERN  SEQ(Computer a, Finance b)
GROUP BY a.type
AGG      COUNT(*)
WITHIN   20 ms
EMIT     TOTAL""",
    },
    "hospital": {
        "Used again, not disinfected": """\
PATTERN SEQ(Recycle r, Wash w, !Disinfect d, Operate o, [id])
WITHIN  2 hours""",
        "Used again without the whole care": """\
PATTERN SEQ(Recycle r, Wash w,
            !SEQ(Sharpen s, Disinfect d, Check c, s.id = d.id = c.id = o.id),
            Operate o, r.id = w.id = o.id)
WHERE   o.instrument = 'surgery'
WITHIN  90 min""",
        "Unchecked tools by ward": """\
PATTERN  SEQ(Recycle r, !Check c, Operate o, [id])
GROUP BY o.ward
AGG      COUNT(*), AVG(o.duration) AS minutes
WITHIN   2 hours
EMIT     TOTAL""",
    },
    "transit": {
        "Texas to Oklahoma": """\
PATTERN SEQ(TX a, OK b, [id])
WITHIN  48 hours""",
        "Galveston, Austin, Tulsa, not by Dallas": """\
PATTERN SEQ(G a, A b, !D x, T c, [id])
WITHIN  48 hours""",
    },
    "traffic": {
        "Queues that grow against the traffic": """\
PATTERN SEQ(Jam a, Jam b, Jam c)
WHERE   b.station = a.station - 1 AND c.station = b.station - 1
        AND a.lane = b.lane = c.lane
WITHIN  5 min""",
        "From slow to jam, hour by hour": """\
PATTERN SEQ(Slow a, Jam b, [detector])
AGG     COUNT(*)
WITHIN  5 min
EMIT    PER 1 h""",
    },
}

_RULES: dict[str, list[dict[str, Any]]] = {
    "hospital": [
        {
            "name": "washed, then sharpened",
            "predicate": "Recycle -> Wash",
            "consequent": "Sharpen",
            "within": "30 min",
            "horizon": "45 min",
            "probability": 0.8,
            "partition_by": "id",
        },
        {
            "name": "prepared, then used",
            "predicate": "Disinfect -> Check",
            "consequent": "Operate",
            "within": "30 min",
            "horizon": "40 min",
            "probability": 0.9,
            "partition_by": "id",
        },
    ],
    "traffic": [
        {
            "name": "slow becomes jam",
            "predicate": "Dense -> Slow",
            "consequent": "Jam",
            "within": "5 min",
            "horizon": "10 min",
            "probability": 0.1,
            "partition_by": "detector",
        },
        {
            "name": "a jam clears",
            "predicate": "Jam -> Slow",
            "consequent": "Dense",
            "within": "5 min",
            "horizon": "15 min",
            "probability": 0.1,
            "partition_by": "detector",
        },
    ],
}
