"""Trips by Citi Bike in July 2017: a departure and an arrival for each, at their stations."""

from __future__ import annotations

import pandas as pd

import seqube as sq

FILE, TYPE = "citibike_events_201707", "event_type"


def q11(events: sq.Events) -> int:
    """Trips that end where they began within 5 minutes"""
    return len(sq.run("SEQ(DEPART d, ARRIVE a, [trip_id], [station_id]) WITHIN 5 min", events))


def q11_pandas(log: pd.DataFrame) -> int:
    trips = log[log.event_type == "DEPART"].merge(log[log.event_type == "ARRIVE"], on=["trip_id", "station_id"])
    return int((trips.ts_y - trips.ts_x < pd.Timedelta("5min")).sum())


def q12(events: sq.Events) -> int:
    """A to B and back to A within 2 hours (the birth year as a stand-in for the rider)"""
    query = """SEQ(DEPART out, ARRIVE there, DEPART back, ARRIVE home, [birth_year])
               WHERE out.trip_id = there.trip_id AND back.trip_id = home.trip_id
                 AND there.station_id = back.station_id AND home.station_id = out.station_id
                 AND there.station_id <> out.station_id
               WITHIN 2 hours"""
    return len(sq.run(query, events))


def q12_pandas(log: pd.DataFrame) -> int:
    trips = log[log.event_type == "DEPART"].merge(log[log.event_type == "ARRIVE"], on="trip_id", suffixes=("", "_to"))
    trips = trips[trips.station_id != trips.station_id_to].dropna(subset="birth_year")
    pairs = trips.merge(
        trips,
        left_on=["birth_year", "station_id", "station_id_to"],
        right_on=["birth_year", "station_id_to", "station_id"],
        suffixes=("", "_back"),
    )
    in_order = (pairs.ts < pairs.ts_to) & (pairs.ts_to < pairs.ts_back) & (pairs.ts_back < pairs.ts_to_back)
    return int((in_order & (pairs.ts_to_back - pairs.ts < pd.Timedelta("2h"))).sum())


def q13(events: sq.Events) -> int:
    """A station that runs empty: six departures in a row without an arrival"""
    return len(sq.run("STRICT(DEPART{6} d) PARTITION BY station_id WITHIN 10 days ORDER BY seq", events))


def q13_pandas(log: pd.DataFrame) -> int:
    found = 0
    for _, own in log.groupby("station_id"):
        leaves = own.event_type == "DEPART"
        found += int((leaves.astype(int).rolling(6).sum() == 6).sum())
    return found


def q14(events: sq.Events) -> int:
    """A wave of ten arrivals within 5 minutes, and then no departure for 10 minutes"""
    query = """NEXT(ARRIVE{10} a, !DEPART d)
               WHERE LAST(a.ts) - FIRST(a.ts) < 5 min AND d.ts - LAST(a.ts) < 10 min
               PARTITION BY station_id WITHIN 15 min ORDER BY seq"""
    return len(sq.run(query, events))


def q14_pandas(log: pd.DataFrame) -> int:
    found = 0
    for _, own in log.groupby("station_id"):
        came, left = own[own.event_type == "ARRIVE"], own[own.event_type == "DEPART"]
        tenth = came.shift(-9).dropna(subset="ts")
        quick = tenth[tenth.ts - came.ts.reindex(tenth.index) < pd.Timedelta("5min")]
        for row in quick.itertuples():
            after = left.ts[left.seq > row.seq]
            found += not (after - row.ts < pd.Timedelta("10min")).any()
    return found
