"""Loop detectors of a motorway, every 30 seconds; there is no type, so every event is ANY, and DEFINE says what a jam is."""

from __future__ import annotations

import pandas as pd

import seqube as sq

FILE, TYPE = "mndot_th610_30s", None


def q22(events: sq.Events) -> int:
    """Congestion that moves upstream: a station jams, then the one before it, then the one before that, within 10 minutes"""
    query = """NEXT(Jam a, Jam b, Jam c, [direction])
               DEFINE Jam AS ANY WHERE occupancy_scans BETWEEN 250 AND 1800
               WHERE b.station_pos = a.station_pos - 1 AND c.station_pos = b.station_pos - 1
               WITHIN 10 min"""
    return len(sq.run(query, events))


def q22_pandas(log: pd.DataFrame) -> int:
    jams = log[log.occupancy_scans.between(250, 1800)]
    found = 0
    for row in jams.itertuples():
        near = jams[(jams.direction == row.direction) & (jams.ts > row.ts) & (jams.ts - row.ts < pd.Timedelta("10min"))]
        second = near.ts[near.station_pos == row.station_pos - 1].min()
        found += bool(((near.station_pos == row.station_pos - 2) & (near.ts > second)).any())
    return found


def q23(events: sq.Events) -> tuple[int, dict[int, int]]:
    """Two successive readings of a detector at 360 scans or more; and the longest such stretch of each detector"""
    full = "STRICT(ANY{} r) WHERE r.occupancy_scans >= 360 PARTITION BY detector WITHIN 15 days ORDER BY seq"
    stretches = sq.run(f"{full.format('+')} SKIP PAST LAST RETURN FIRST(r.detector) AS detector, COUNT(r) AS n", events).to_pandas()
    return len(sq.run(full.format("{2}"), events)), stretches.groupby("detector").n.max().to_dict()


def q23_pandas(log: pd.DataFrame) -> tuple[int, dict[int, int]]:
    full = log.occupancy_scans >= 360
    lengths = full.groupby([log.detector, (~full).groupby(log.detector).cumsum()]).cumsum()
    longest = lengths.groupby(log.detector).max()
    return int((lengths >= 2).sum()), longest[longest > 0].to_dict()
