"""The plan of every query in `queries/` and in `examples/`, as `explain` tells it, is the one in `snapshots/`.

A family is a `*.sqb` file with the events and the strategies its queries are explained for. Its snapshot holds each query with each
strategy's plan, or with the message of the error where the strategy does not apply. Costs are part of it: they follow from the
counts of generated events, which are the same on every machine. After a change that is meant to change plans,

    SEQUBE_SNAPSHOTS=write .venv/bin/python -m pytest tests/plan

writes the snapshots anew; their difference is read before it is committed.

A new query goes to a file in `queries/`; a new file there, to `FAMILIES`. A folder of `examples/` is a family by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from pathlib import Path

import pytest
import yaml

import seqube as sq
from seqube.generate import generate, hierarchy
from seqube.language import parse_file

HERE = Path(__file__).resolve().parent
QUERIES, SNAPSHOTS = HERE / "queries", HERE / "snapshots"
EXAMPLES = HERE.parent.parent / "examples"

# Written out, so that a name that is lost shows.
AUTO = ("auto",)
NESTED = ("iterative", "aggressive", "passive", "balanced", "latest-start")
AGGREGATING = ("two-step", "per-start", "window-product")
SHARING = ("independent", "top-down", "bottom-up", "chase")
COUNTING = ("independent", "prefix-tree", "chop-connect", "exhaustive")
EVERY_NAME = tuple(dict.fromkeys((*AUTO, *NESTED, *AGGREGATING, *SHARING, *COUNTING, "fastest")))

Queries = Mapping[str, sq.Query]


@dataclass(frozen=True, slots=True)
class Family:
    """What the queries of a file are explained for; `together`, as one workload; `in_brief`, without the plans themselves."""

    kind: str | None = None  # of generated events; None: nothing is known of them
    strategies: tuple[str, ...] = AUTO
    together: bool = False
    in_brief: bool = False


FAMILIES = {
    "flat": Family("hospital"),
    "negation": Family("hospital"),
    "nested": Family("hospital", (*AUTO, *NESTED)),
    "alternatives": Family("hospital", (*AUTO, "balanced")),
    "runs": Family("hospital"),
    "concepts": Family("transit"),
    "aggregates": Family("stock", (*AUTO, *AGGREGATING)),
    "unmeasured": Family(),
    "refusals": Family("stock", EVERY_NAME, in_brief=True),
    "workload-of-matches": Family("transit", (*AUTO, *SHARING), together=True),
    "workload-of-keyed-matches": Family("transit", (*AUTO, *SHARING), together=True),
    "workload-of-equals": Family("stock", (*AUTO, *SHARING), together=True),  # of ties, the same is taken in every process
    "workload-of-counts": Family("stock", (*AUTO, *COUNTING), together=True),
    "workload-of-other-aggregates": Family("stock", (*AUTO, *COUNTING), together=True),
    "workload-of-both": Family("stock", EVERY_NAME, together=True),
}


@cache
def generated(kind: str) -> tuple[sq.Events, sq.Hierarchy | None]:
    """Enough events for costs that differ, and too few for a workload to be measured by running it on a sample."""
    concepts = hierarchy(kind)
    return sq.Events(generate(kind, 40_000, seed=1)), sq.Hierarchy.from_dict(concepts) if concepts else None


# ---------------------------------------------------------------- what is told

Told = dict[str, str]  # by query and strategy: the query, and its plan or the message of the error


def told_of_family(name: str) -> Told:
    family = FAMILIES[name]
    events, concepts = generated(family.kind) if family.kind else (None, None)
    queries = parse_file((QUERIES / f"{name}.sqb").read_text(encoding="utf-8"))
    return told_together(queries, family, events, concepts) if family.together else told_alone(queries, family, events, concepts)


def told_of_example(folder: Path) -> Told:
    """Every query by itself, then all of them together. Those of a pipeline are planned before any event has come."""
    if (folder / "query.sqb").exists():
        queries, events = parse_file((folder / "query.sqb").read_text(encoding="utf-8")), sq.Events(str(folder / "events.csv"))
    else:
        texts = yaml.safe_load((folder / "pipeline.yaml").read_text(encoding="utf-8"))["queries"]
        queries, events = {name: sq.parse(text) for name, text in texts.items()}, None
    concepts = sq.Hierarchy.load(str(folder / "hierarchy.yaml")) if (folder / "hierarchy.yaml").exists() else None
    alone = told_alone(queries, Family(), events, concepts)
    return alone | told_together(queries, Family(), events, concepts) if len(queries) > 1 else alone


def told_alone(queries: Queries, family: Family, events: sq.Events | None, concepts: sq.Hierarchy | None) -> Told:
    told: Told = {}
    for name, query in queries.items():
        plans = plans_of(query, family, events, concepts)
        told |= {f"{name}, by {strategy}": f"{one_line(query)}\n\n{plan}" for strategy, plan in plans.items()}
    return told


def told_together(queries: Queries, family: Family, events: sq.Events | None, concepts: sq.Hierarchy | None) -> Told:
    written = "\n".join(f"{name}: {one_line(query)}" for name, query in queries.items())
    plans = plans_of(queries, family, events, concepts)
    return {f"together, by {strategy}": f"{written}\n\n{plan}" for strategy, plan in plans.items()}


def plans_of(query: sq.Query | Queries, family: Family, events: sq.Events | None, concepts: sq.Hierarchy | None) -> dict[str, str]:
    """What `explain` says, by strategy; a plan that an earlier strategy has too is not repeated."""
    plans: dict[str, str] = {}
    for strategy in family.strategies:
        try:
            plan = str(sq.explain(query, events, hierarchy=concepts, strategy=strategy))
        except sq.PlanError as error:
            plans[strategy] = f"PlanError: {error}"
        else:
            same = next((earlier for earlier, text in plans.items() if text == plan), None)
            plans[strategy] = "applies" if family.in_brief else f"as by {same}" if same else plan
    return plans


def one_line(query: sq.Query) -> str:
    return " ".join(str(query).split())


# ---------------------------------------------------------------- held against what was told before

MARK = "==== "


def examples() -> list[Path]:
    return sorted(path.parent for name in ("query.sqb", "pipeline.yaml") for path in EXAMPLES.glob(f"*/{name}"))


def read(snapshot: Path) -> Told:
    text = snapshot.read_text(encoding="utf-8") if snapshot.exists() else ""
    pieces = (piece.partition("\n") for piece in text.split(MARK)[1:])
    return {title: body.rstrip("\n") for title, _, body in pieces}


def hold(told: Told, snapshot: Path) -> None:
    asked = os.environ.get("SEQUBE_SNAPSHOTS")
    assert asked in (None, "write"), f"SEQUBE_SNAPSHOTS is {asked!r}: leave it away, or say write"
    if asked == "write":
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write_text("\n".join(f"{MARK}{title}\n{body}\n" for title, body in told.items()), encoding="utf-8")
    before = read(snapshot)
    changes = [
        line
        for title in dict.fromkeys([*before, *told])
        for line in unified_diff(
            before.get(title, "").splitlines(),
            told.get(title, "").splitlines(),
            f"{title}: held",
            f"{title}: now",
            lineterm="",
            n=99,
        )
    ]
    if changes:
        changes.append("If this is the better plan: SEQUBE_SNAPSHOTS=write .venv/bin/python -m pytest tests/plan")
        pytest.fail(f"{snapshot.name}\n" + "\n".join(changes), pytrace=False)


@pytest.mark.parametrize("name", FAMILIES)
def test_plans(name: str) -> None:
    hold(told_of_family(name), SNAPSHOTS / f"{name}.txt")


@pytest.mark.parametrize("folder", examples(), ids=lambda folder: folder.name)
def test_plans_of_examples(folder: Path) -> None:
    hold(told_of_example(folder), SNAPSHOTS / "examples" / f"{folder.name}.txt")


def test_every_file_of_queries_is_a_family() -> None:
    assert {path.stem for path in QUERIES.iterdir()} == FAMILIES.keys()


def test_every_example_is_held_unless_it_has_rules_or_a_log_only() -> None:
    others = {folder for folder in EXAMPLES.iterdir() if folder.is_dir()} - set(examples())
    assert all((folder / "rules.yaml").exists() or (folder / "log.jsonl").exists() for folder in others)


def test_every_snapshot_is_of_something() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} <= FAMILIES.keys()
    assert {path.stem for path in (SNAPSHOTS / "examples").iterdir()} <= {folder.name for folder in examples()}
