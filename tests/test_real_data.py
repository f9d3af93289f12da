"""Real events: what the engine finds equals what a plain loop over the same file counts."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import seqube as sq


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = pq.read_table(path, columns=list(columns))
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def by_key(events: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Events (key, ...) by their key, in order."""
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for key, *rest in events:
        groups[key].append(tuple(rest))
    return groups


def test_sepsis_triage_without_antibiotics_in_the_hour(shared_data: Path) -> None:
    path = shared_data / "sepsis_cases.parquet"
    breaches = 0
    for log in by_key(rows(path, "case_id", "activity", "ts")).values():
        given = [ts for activity, ts in log if activity == "IV Antibiotics"]
        triages = [ts for activity, ts in log if activity == "ER Sepsis Triage"]
        breaches += sum(not any(ts < drug < ts + timedelta(hours=1) for drug in given) for ts in triages)
    query = 'SEQ("ER Sepsis Triage" t, !"IV Antibiotics" x) WITHIN 1 hour'
    assert len(sq.run(f"{query} PARTITION BY case_id", path, type="activity")) == breaches == 708
    same = query.replace(" x)", " x, [case_id])")
    assert len(sq.run(same, path, type="activity")) == breaches


def test_sepsis_patients_who_return(shared_data: Path) -> None:
    path = shared_data / "sepsis_cases.parquet"
    releases = sq.Hierarchy.from_dict({"Release": [f"Release {letter}" for letter in "ABCDE"]})
    query = 'SEQ(Release a, "Return ER" b) WITHIN 28 days PARTITION BY case_id RETURN a.case_id AS patient'
    result = sq.run(query, path, type="activity", hierarchy=releases)
    assert len(set(result.table.column("patient").to_pylist())) == 111


def test_nurses_between_two_patients(shared_data: Path) -> None:
    path = shared_data / "hospital_rfid_contacts.parquet"
    contacts = by_key([(a, b, ts) for a, b, kind, ts in rows(path, "badge_a", "badge_b", "pair_type", "ts") if kind == "NUR-PAT"])
    count = sum(
        first != second and t1 < t2 < t1 + timedelta(minutes=2)
        for visits in contacts.values()
        for first, t1 in visits
        for second, t2 in visits
    )
    query = 'SEQ("NUR-PAT" a, "NUR-PAT" b, a.badge_a = b.badge_a AND a.badge_b != b.badge_b) WITHIN 2 min'
    assert len(sq.run(query, path, type="pair_type")) == count > 3000


def test_aircraft_that_change_airports(shared_data: Path) -> None:
    path = shared_data / "nyc_flights_2013.parquet"
    count = 0
    day = timedelta(days=1)
    for tail, flights in by_key(rows(path, "tailnum", "origin", "ts")).items():
        left = [ts for origin, ts in flights if origin == "JFK"]
        count += sum(t1 < ts < t1 + day for origin, ts in flights if origin != "JFK" for t1 in left) if tail is not None else 0
    query = "SEQ(JFK a, OR(LGA b, EWR c), [tailnum]) WITHIN 24 hours"
    assert len(sq.run(query, path, type="origin")) == count > 0


def test_trades_with_ties(shared_data: Path) -> None:
    """Half of the trades share their time with the one before: strict order is what keeps them apart."""
    path = shared_data / "stock_trace_wpi.parquet"
    trades: list[tuple[str, datetime, float]] = rows(path, "ticker", "ts", "price")[:40_000]
    window = timedelta(milliseconds=300)
    count, recent = 0, []
    for ticker, ts, price in trades:
        recent = [trade for trade in recent if ts - trade[1] < window]
        if ticker == "MSFT":
            sold = [t for name, t, _ in recent if name == "RIMM"]
            starts = [t for name, t, paid in recent if name == "DELL" and t < ts and paid > price]
            count += sum(not any(t < s < ts for s in sold) for t in starts)
        recent.append((ticker, ts, price))
    events = sq.Events(path, type="ticker").slice(0, 40_000)
    assert len(sq.run("SEQ(DELL a, !RIMM x, MSFT b, a.price > b.price) WITHIN 300 ms", events)) == count > 0
