"""Flights from the three airports of New York in 2013."""

from __future__ import annotations

import pandas as pd

import seqube as sq

FILE, TYPE = "nyc_flights_2013", "status"


def q08(events: sq.Events) -> int:
    """A plane (tail number) that departs more than an hour late and is so again at its very next departure"""
    query = """NEXT(Departure a, Departure b, [tailnum])
               DEFINE Departure AS ANY WHERE status <> 'CANCELLED'
               WITHIN 400 days ORDER BY seq
               RETURN a.dep_delay > 60 AND b.dep_delay > 60 AS again"""
    return sq.run(query, events).table.column("again").to_pylist().count(True)


def q08_pandas(log: pd.DataFrame) -> int:
    flown = log[log.status != "CANCELLED"].dropna(subset="tailnum")
    late = flown.dep_delay > 60
    return int((late & late.groupby(flown.tailnum).shift(-1, fill_value=False)).sum())


def q09(events: sq.Events) -> int:
    """Moments at which five or more flights were cancelled in the last 30 minutes at one airport"""
    counts = sq.run("CANCELLED c GROUP BY c.origin AGG COUNT(*) AS n WITHIN 30 min", events).table
    return sum(n >= 5 for n in counts.column("n").to_pylist())


def q09_pandas(log: pd.DataFrame) -> int:
    cancelled = log[log.status == "CANCELLED"]
    moments = 0
    for _, own in cancelled.groupby("origin"):
        counts = pd.Series(1, own.ts).rolling("30min").sum()
        moments += int((counts.groupby(level=0).max() >= 5).sum())
    return moments


def q10(events: sq.Events) -> dict[str, int]:
    """Cancellations per day"""
    days = sq.run("CANCELLED c AGG COUNT(*) AS n WITHIN 1 day EMIT PER 1 day", events).table.to_pylist()
    return {f"{row['ts']:%Y-%m-%d}": row["n"] for row in days}


def q10_pandas(log: pd.DataFrame) -> dict[str, int]:
    counts = log[log.status == "CANCELLED"].set_index("ts").resample("D").size()
    return {f"{day:%Y-%m-%d}": int(n) for day, n in counts.items() if n}
