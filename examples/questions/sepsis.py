"""Sepsis cases: the way of 1,050 patients through a hospital. Ties in time are decided by the file's `seq`."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

import seqube as sq

FILE, TYPE = "sepsis_cases", "activity"
EVER = "1000 days"
HOURS_3 = pd.Timedelta("3h")
STEPS = ["ER Registration", "ER Sepsis Triage", "IV Antibiotics", "Admission NC", "Release A"]


def patients(query: str, events: sq.Events) -> int:
    """How many patients a query finds; it returns them as `patient`."""
    return len(set(sq.run(query, events).table.column("patient").to_pylist()))


def times_to_antibiotics(log: pd.DataFrame) -> pd.DataFrame:
    """By patient: the triage, and the first antibiotics after it, if there are any."""
    triage = log[log.activity == "ER Sepsis Triage"].groupby("case_id").ts.min().rename("triage")
    given = log[log.activity == "IV Antibiotics"].merge(triage, on="case_id")
    given = given[given.ts > given.triage].groupby("case_id").ts.min().rename("given")
    return pd.concat([triage, given], axis=1)


def q01(events: sq.Events) -> int:
    """Which patients got IV antibiotics more than 3 hours after ER sepsis triage?"""
    return patients(
        f"""NEXT("ER Sepsis Triage" t, "IV Antibiotics" a, [case_id])
            WHERE a.ts - t.ts > 3 hours
            WITHIN {EVER}
            RETURN t.case_id AS patient""",
        events,
    )


def q01_pandas(log: pd.DataFrame) -> int:
    times = times_to_antibiotics(log)
    return int((times.given - times.triage > HOURS_3).sum())


def q02(events: sq.Events) -> tuple[int, int]:
    """Which got none after triage; which none within 3 hours?"""
    none = 'SEQ("ER Sepsis Triage" t, !"IV Antibiotics" a, [case_id]) WITHIN {} RETURN t.case_id AS patient'
    return patients(none.format(EVER), events), patients(none.format("3 hours"), events)


def q02_pandas(log: pd.DataFrame) -> tuple[int, int]:
    times = times_to_antibiotics(log)
    return int(times.given.isna().sum()), int((~(times.given - times.triage < HOURS_3)).sum())


def q03(events: sq.Events) -> int:
    """Whose next lactate value is higher than the one before? (How often that was so.)"""
    query = f"""NEXT(LacticAcid a, LacticAcid b, [case_id]) WITHIN {EVER} ORDER BY seq
                RETURN b.lactic_acid > a.lactic_acid AS higher"""
    return sq.run(query, events).table.column("higher").to_pylist().count(True)


def q03_pandas(log: pd.DataFrame) -> int:
    values = log[log.activity == "LacticAcid"].groupby("case_id").lactic_acid
    return int((values.diff() > 0).sum())


def q04(events: sq.Events) -> int:
    """Who came back to the ER within 28 days of release (any of the release types)?"""
    return patients(
        """SEQ(Release r, "Return ER" b, [case_id])
           DEFINE Release AS ANY WHERE activity LIKE 'Release %'
           WITHIN 28 days
           RETURN b.case_id AS patient""",
        events,
    )


def q04_pandas(log: pd.DataFrame) -> int:
    released = log[log.activity.str.startswith("Release ")]
    back = released.merge(log[log.activity == "Return ER"], on="case_id", suffixes=("", "_back"))
    waited = back.ts_back - back.ts
    return int(back[(waited > pd.Timedelta(0)) & (waited < pd.Timedelta("28d"))].case_id.nunique())


def q05(events: sq.Events) -> list[int]:
    """How far did each case get: registration, triage, antibiotics, admission, release; how many at each step?"""
    funnel = sq.funnel(events, STEPS, by="case_id", within=EVER)
    return [int(n) for n in funnel.table.column("reached").to_pylist()]


def q05_pandas(log: pd.DataFrame) -> list[int]:
    reached = {}
    for case, own in log.groupby("case_id"):
        best = 0
        for start in own.ts[own.activity == STEPS[0]]:
            at, n = start, 1
            for step in STEPS[1:]:
                later = own.ts[(own.activity == step) & (own.ts > at)]
                if later.empty:
                    break
                at, n = later.min(), n + 1
            best = max(best, n)
        reached[case] = best
    return [sum(n >= step for n in reached.values()) for step in range(1, len(STEPS) + 1)]


def _by_hour(waits: pd.DataFrame) -> dict[int, tuple[int, int, int]]:
    """Mean, median and 90th percentile in seconds, by hour."""
    seconds = waits.wait.dt.total_seconds().groupby(waits.hour)
    return {int(hour): (round(own.mean()), round(own.median()), round(own.quantile(0.9))) for hour, own in seconds}


def q06(events: sq.Events) -> dict[int, tuple[int, int, int]]:
    """Mean, median and 90th percentile of the time from triage to antibiotics, per hour of day of the triage."""
    query = f"""NEXT("ER Sepsis Triage" t, "IV Antibiotics" a, [case_id]) WITHIN {EVER}
                RETURN EXTRACT(HOUR FROM t.ts) AS hour, a.ts - t.ts AS wait"""
    return _by_hour(sq.run(query, events).to_pandas())


def q06_pandas(log: pd.DataFrame) -> dict[int, tuple[int, int, int]]:
    times = times_to_antibiotics(log).dropna()
    return _by_hour(pd.DataFrame({"hour": times.triage.dt.hour, "wait": times.given - times.triage}))


def q07(events: sq.Events) -> int:
    """Three or more leucocyte tests in a row with falling values (how many patients)"""
    tests = sq.Events(events.table.filter(pa.compute.equal(events.table.column("activity"), "Leucocytes")), type="activity")
    return patients(
        f"""STRICT(Leucocytes{{3,}} l) WHERE l.leucocytes < PREV(l.leucocytes)
            PARTITION BY case_id WITHIN {EVER} ORDER BY seq
            RETURN FIRST(l.case_id) AS patient""",
        tests,
    )


def q07_pandas(log: pd.DataFrame) -> int:
    tests = log[log.activity == "Leucocytes"]
    falls = (tests.groupby("case_id").leucocytes.diff() < 0).astype(int)
    twice = falls + falls.groupby(tests.case_id).shift(1, fill_value=0)
    return int(tests[twice == 2].case_id.nunique())


def q24(events: sq.Events) -> list[tuple[str, float]]:
    """For the case with this key: what comes next, how likely, until when (rules mined from the others)"""
    case = "XJ"
    is_other = pa.compute.not_equal(events.table.column("case_id"), case)
    others = sq.Events(events.table.filter(is_other), type="activity")
    rules = sq.mine(
        others,
        "1 day",
        200,
        0.5,
        horizon="2 days",
        max_events=1,
        partition_by="case_id",
        kinds=["serial"],
        min_lift=1.5,
        min_gain=0,
    )
    first = sq.Events(events.table.filter(pa.compute.invert(is_other)).slice(0, 1), type="activity")
    expected = sq.forecast(rules, first, key=case).expected.to_pylist()
    return [(row["consequent"], round(row["probability"], 3)) for row in expected]


def q24_pandas(log: pd.DataFrame) -> list[tuple[str, float]]:
    """After a first event: the share of the others' events of that type that each type followed within two days."""
    first = log[log.case_id == "XJ"].iloc[0]
    others = log[log.case_id != "XJ"]
    past = others[others.ts <= log.ts.max() - pd.Timedelta("2d") + pd.Timedelta("1us")].drop_duplicates(
        ["case_id", "activity", "ts"]
    )
    pairs = past.reset_index().merge(others, on="case_id", suffixes=("", "_next"))
    gap = pairs.ts_next - pairs.ts
    pairs = pairs[(gap > pd.Timedelta(0)) & (gap < pd.Timedelta("2d"))].drop_duplicates(["index", "activity_next"])
    common = others.activity.value_counts() >= 200
    past, pairs = past[past.activity.map(common)], pairs[pairs.activity.map(common) & pairs.activity_next.map(common)]
    rates = pairs.activity_next.value_counts() / len(past)
    own = pairs[pairs.activity == first.activity].activity_next.value_counts()
    shares = own / (past.activity == first.activity).sum()
    kept = shares[(own >= 200) & (shares >= 0.5) & (shares / rates >= 1.5)]
    return [(name, round(share, 3)) for name, share in sorted(kept.items(), key=lambda item: -item[1])]
