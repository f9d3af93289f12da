"""Temperatures of 52 sensors every 30 seconds; there is no type, so every event is ANY."""

from __future__ import annotations

import pandas as pd

import seqube as sq

FILE, TYPE = "intel_lab_temperature_5d", None


def q15(events: sq.Events) -> tuple[int, dict[int, int]]:
    """A sensor whose temperature rises three readings in a row; the longest such rise of each sensor"""
    rises = "STRICT(ANY{} r) WHERE r.temperature_c > PREV(r.temperature_c) PARTITION BY mote_id WITHIN 5 days"
    longest = sq.run(f"{rises.format('{2,}')} SKIP PAST LAST RETURN FIRST(r.mote_id) AS mote, COUNT(r) AS n", events).to_pandas()
    return len(sq.run(rises.format("{4}"), events)), (longest.groupby("mote").n.max() - 1).to_dict()


def q15_pandas(log: pd.DataFrame) -> tuple[int, dict[int, int]]:
    rises = log.groupby("mote_id").temperature_c.diff() > 0
    lengths = rises.groupby([log.mote_id, (~rises).groupby(log.mote_id).cumsum()]).cumsum()
    return int((lengths >= 3).sum()), lengths.groupby(log.mote_id).max().to_dict()


def q16(events: sq.Events) -> tuple[int, int]:
    """A glitch: a fall of more than 8 degrees in one step; and which recovered (to within a degree) within 5 minutes"""
    fall = "STRICT(ANY a, ANY b) WHERE a.temperature_c - b.temperature_c > 8"
    lasting = """SEQ(STRICT(ANY a, ANY b), !ANY c)
                 WHERE a.temperature_c - b.temperature_c > 8 AND c.temperature_c > a.temperature_c - 1"""
    falls = len(sq.run(f"{fall} PARTITION BY mote_id WITHIN 5 min", events))
    return falls, falls - len(sq.run(f"{lasting} PARTITION BY mote_id WITHIN 5 min", events))


def q16_pandas(log: pd.DataFrame) -> tuple[int, int]:
    falls = recovered = 0
    for _, own in log.groupby("mote_id"):
        before = own.temperature_c.shift(1)
        for row in own[before - own.temperature_c > 8].itertuples():
            level, began = before[row.Index], row.ts - pd.Timedelta("30s")
            later = own[(own.ts > row.ts) & (own.ts - began < pd.Timedelta("5min"))]
            falls, recovered = falls + 1, recovered + bool((later.temperature_c > level - 1).any())
    return falls, recovered
