"""Contacts of staff and patients of a ward; first it is said who is which."""

from __future__ import annotations

import pandas as pd

import seqube as sq

FILE, TYPE = "hospital_rfid_contacts", "pair_type"
ROLES = {"Staff": {"Care": ["NUR", "MED"], "Office": ["ADM"]}}


def visits(log: pd.DataFrame) -> pd.DataFrame:
    """Contacts of one of the staff with a patient: when, the role, who, and with whom."""
    a, b = log[log.role_b == "PAT"], log[log.role_a == "PAT"]
    names = {"badge_a": "staff", "role_a": "role", "badge_b": "patient"}
    turned = {"badge_b": "staff", "role_b": "role", "badge_a": "patient"}
    both = pd.concat(
        [part.rename(columns=own)[["seq", "ts", "role", "staff", "patient"]] for part, own in ((a, names), (b, turned))]
    )
    return both[both.role != "PAT"].sort_values("seq").reset_index(drop=True)


def _events(events: sq.Events) -> sq.Events:
    return sq.Events(visits(events.table.to_pandas()), type="role")


def q20(events: sq.Events) -> int:
    """A nurse who meets one patient and within 2 minutes another"""
    return len(sq.run("SEQ(NUR a, NUR b, [staff]) WHERE a.patient <> b.patient WITHIN 2 min", _events(events)))


def q20_pandas(log: pd.DataFrame) -> int:
    met = visits(log)
    met = met[met.role == "NUR"]
    pairs = met.merge(met, on="staff")
    waited = pairs.ts_y - pairs.ts_x
    return int(((pairs.patient_x != pairs.patient_y) & (waited > pd.Timedelta(0)) & (waited < pd.Timedelta("2min"))).sum())


def q21(events: sq.Events) -> dict[str, int]:
    """Chains of contact patient, staff, other patient within an hour: how many, at each level of a hierarchy of roles?"""
    concepts = sq.Hierarchy.from_dict(ROLES)
    query = "SEQ({0} a, {0} b, [staff]) WHERE a.patient <> b.patient AGG COUNT(*) AS n WITHIN 1 hour EMIT TOTAL"
    queries = {role: query.format(role) for role in ("Staff", "Care", "Office", "NUR", "MED", "ADM")}
    results = sq.run(queries, _events(events), hierarchy=concepts)
    return {role: result.table.column("n")[0].as_py() for role, result in results.items()}


def q21_pandas(log: pd.DataFrame) -> dict[str, int]:
    met = visits(log)
    pairs = met.merge(met, on=["staff", "role"])
    waited = pairs.ts_y - pairs.ts_x
    pairs = pairs[(pairs.patient_x != pairs.patient_y) & (waited > pd.Timedelta(0)) & (waited < pd.Timedelta("1h"))]
    roles = {
        "Staff": ["NUR", "MED", "ADM"],
        "Care": ["NUR", "MED"],
        "Office": ["ADM"],
        "NUR": ["NUR"],
        "MED": ["MED"],
        "ADM": ["ADM"],
    }
    return {name: int(pairs.role.isin(below).sum()) for name, below in roles.items()}
