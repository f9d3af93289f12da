"""However events are pushed, late or not, saved and loaded in between, while queries come and go: the oracle's answer comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import aggregate_queries
from answers import show
from seqube.engine import standing
from seqube.language import parse
from seqube.plan.optimizer import optimize, plan_query
from seqube.plan.physical import MatchPlan, ticks
from seqube.plan.strategies import names
from steps import rows
from strategies import SCHEMA, cuts, plain, queries, streams, table

DECLARED = {name: SCHEMA.field(name).type for name in ("w", "u", "c", "k", "d")}  # what no dictionary shows by itself
few = settings(max_examples=settings.default.max_examples // 4)  # each case is many pushes
AT_THE_END = 1e9  # when totals are final: after all times, but it comes
any_query = queries(depth=2) | aggregate_queries(depth=2)
RUNS = ("SEQ", "NEXT", "STRICT")
runs = queries(repeats=True, depth=2, words=RUNS) | queries(repeats=True, depth=1, words=RUNS, clauses=["SKIP"])
counted_runs = aggregate_queries(repeats=True, depth=1, words=RUNS)
counted_runs |= aggregate_queries(repeats=True, depth=1, words=RUNS, clauses=["SKIP"])
ordered = queries(depth=2, words=(*RUNS, "AND", "OR"), clauses=["ORDER BY"])
timed_query = queries(depth=2, counted=False) | aggregate_queries(depth=2, counted=False)
timed_query |= queries(repeats=True, depth=1, words=RUNS, counted=False)
timed_query |= queries(depth=2, words=RUNS, counted=False, clauses=["ORDER BY"])

Row = tuple[Any, ...]


def comparable(row: dict[str, Any]) -> Row:
    return tuple((name, repr(plain(value))) for name, value in sorted(row.items()))


def answer(text: str, events: Sequence[oracle.Event]) -> list[tuple[float, Row]]:
    """The rows of a query, each with the last time before which it is not final."""
    query = parse(text)
    if query.aggregates:
        return [(row.get("ts", AT_THE_END), comparable(row)) for row in oracle.aggregates(query, events)]
    plan = plan_query(query)
    assert isinstance(plan, MatchPlan)
    times = {event.row: event.ts for event in events}
    found = []
    for row in oracle.matches(query, events):
        rows_bound = [number for value in row.values() for number in (value if isinstance(value, tuple) else (value,))]
        bound = [times[number] for number in rows_bound if number is not None]
        final = min(bound) + ticks(query.window, "ms") - 1 if plan.waits else max(bound)
        found.append((final, comparable(row)))
    return found


def came(tables: list[Any]) -> list[Row]:
    """The rows that came out, as `answer` has them."""
    return [comparable(row) for one in tables for row in (rows(one) if "start" in one.column_names else one.to_pylist())]


def as_dicts(events: Sequence[oracle.Event]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if value is not None} for row in table(events).to_pylist()]


class Pushed:
    """A stream, what came of it, and how it is written down."""

    def __init__(self, stream: sq.Stream) -> None:
        self.stream = stream
        self.found: dict[str, list[Any]] = {}
        self.time = -inf  # everything before this is decided, where no event comes late

    def push(self, events: Sequence[oracle.Event]) -> None:
        self.note(self.stream.push(table(events)))
        self.time = max([self.time, *(event.ts for event in events)])

    def note(self, tables: dict[str, Any]) -> None:
        for name, one in tables.items():
            assert one.num_rows
            self.found.setdefault(name, []).append(one)

    def reload(self) -> None:
        self.stream = sq.Stream.load(self.stream.save())


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[oracle.Event], list[oracle.Event], int]:
    """Events in the order of time, the same as they arrive, and by how much they may come too late: never more."""
    events = draw(streams(max_size=11))
    lateness = draw(st.sampled_from([0, 0, 1, 3]))
    delays = draw(st.lists(st.integers(0, lateness), min_size=len(events), max_size=len(events)))
    order = sorted(range(len(events)), key=lambda number: events[number].ts + delays[number])
    arriving = [events[number] for number in order]
    return sorted(arriving, key=lambda event: event.ts), arriving, lateness


def pushes(events: Sequence[oracle.Event], form: str) -> Any:
    return as_dicts(events) if form == "dictionaries" else table(events)


@few
@given(data=st.data(), texts=st.lists(any_query | runs | ordered | counted_runs, min_size=1, max_size=2), arrived=arrivals())
def test_any_pushes_in_any_form_give_the_answer(
    data: st.DataObject, texts: list[str], arrived: tuple[list[oracle.Event], list[oracle.Event], int]
) -> None:
    events, arriving, lateness = arrived
    show("\n".join(texts), events)
    named = {f"q{number}": text for number, text in enumerate(texts)}
    form = data.draw(st.sampled_from(["tables", "dictionaries", "one by one"]))
    pushed = Pushed(sq.Stream(named, lateness=lateness, columns=None if form == "tables" else DECLARED))
    pieces = [(row, row + 1) for row in range(len(events))] if form == "one by one" else data.draw(cuts(len(events)))
    for start, stop in pieces:
        batch: Any = as_dicts(arriving[start:stop])[0] if form == "one by one" else pushes(arriving[start:stop], form)
        pushed.note(pushed.stream.push(batch))
        assert not pushed.stream.late
        assert not pushed.stream.rejected
        if stop < len(events) and data.draw(st.booleans()):
            pushed.note(pushed.stream.advance(min(event.ts for event in arriving[stop:])) if stop else {})
        if data.draw(st.booleans()):
            pushed.reload()
    pushed.note(pushed.stream.close())
    for name, text in named.items():
        wanted = answer(text, events)
        if form != "tables" and not events:
            wanted = []  # without a row nobody knows the columns, and nothing begins
        assert sorted(came(pushed.found.get(name, []))) == sorted(row for _, row in wanted)


RULES = sq.Rules(
    [
        sq.Rule("A -> B", "C", 4, 9, 0.5, name="serial"),
        sq.Rule("A, B -> C WHERE x > 0", "D", 5, 9, 0.5, name="parallel"),
        sq.Rule("B", "C", 3, 5, 0.5, name="keyed", partition_by="id"),
    ]
)


@few
@given(data=st.data(), arrived=arrivals(), as_rows=st.booleans())
def test_rules_predict_what_they_predict_of_all_events(
    data: st.DataObject, arrived: tuple[list[oracle.Event], list[oracle.Event], int], as_rows: bool
) -> None:
    events, arriving, lateness = arrived
    show("rules", events)
    pushed = Pushed(sq.Stream("SEQ(A a, B b) WITHIN 3", rules=RULES, lateness=lateness, columns=DECLARED if as_rows else SCHEMA))
    for start, stop in data.draw(cuts(len(events))):
        pushed.note(pushed.stream.push(pushes(arriving[start:stop], "dictionaries" if as_rows else "tables")))
        if data.draw(st.booleans()):
            pushed.reload()
    pushed.note(pushed.stream.close())
    whole = sq.forecast(RULES, table(events)).table.to_pylist()
    found = [row for one in pushed.found.get("forecasts", []) for row in one.to_pylist()]
    assert Counter(map(repr, found)) == Counter(map(repr, whole))


@contextmanager
def forgetful() -> Iterator[None]:
    """Streams keep no more than they must, so that queries come too late to see everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing, "KEPT_ANYWAY", 0)
        yield


keeping = st.sampled_from([None, 0, 2, 5, 100])


def strategies_for(first: str, second: str) -> st.SearchStrategy[str]:
    """A strategy for the query that a stream begins with, and for the other one too, where it is of that kind."""
    kinds = names("aggregates" if parse(second).aggregates else "matches")
    known = [name for name in names("matches", "aggregates") if applies(first, name)]
    return st.sampled_from(["auto", *(name for name in known if name not in kinds or applies(second, name))])


def applies(text: str, strategy: str) -> bool:
    try:
        optimize({"q": parse(text)}, None, None, strategy)
    except sq.PlanError:
        return False
    return True


@forgetful()
@few
@given(data=st.data(), first=timed_query, second=timed_query, events=streams(max_time=20), keep=keeping)
def test_a_query_is_replaced_when_the_new_one_is_whole(
    data: st.DataObject, first: str, second: str, events: list[oracle.Event], keep: int | None
) -> None:
    """What is final at the moment of handing over came from the one, the rest from the other."""
    show(f"{first}\n\nthen\n\n{second}", events)
    pieces = data.draw(cuts(len(events)))
    when = data.draw(st.integers(0, len(pieces) - 1))
    strategy = data.draw(strategies_for(first, second))
    pushed = Pushed(sq.Stream({"q": first}, keep=keep, columns=SCHEMA, strategy=strategy))
    handed: float = inf
    wanted: float = inf
    for number, (start, stop) in enumerate(pieces):
        pushed.push(events[start:stop])
        if number == when:
            with suppress(sq.PlanError) if "EMIT TOTAL" in second else nullcontext():
                since = pushed.stream.replace("q", second)
                wanted = -inf if since is None else since
        if handed == inf and pushed.time >= wanted:
            handed = pushed.time
        if data.draw(st.booleans()):
            pushed.reload()
    pushed.note(pushed.stream.close())
    merged = [row for final, row in answer(first, events) if final < handed]
    merged += [row for final, row in answer(second, events) if final >= handed]
    assert sorted(came(pushed.found.get("q", []))) == sorted(merged)


@forgetful()
@few
@given(data=st.data(), first=timed_query, second=any_query, events=streams(max_time=20), keep=keeping)
def test_a_query_that_is_added_is_whole_from_when_it_says(
    data: st.DataObject, first: str, second: str, events: list[oracle.Event], keep: int | None
) -> None:
    show(f"{first}\n\nand\n\n{second}", events)
    pieces = data.draw(cuts(len(events)))
    when = data.draw(st.integers(0, len(pieces) - 1))
    gone = data.draw(st.integers(when, len(pieces)))
    strategy = data.draw(strategies_for(first, second))
    pushed = Pushed(sq.Stream({"q": first}, keep=keep, columns=SCHEMA, strategy=strategy))
    added = since = removed = inf
    for number, (start, stop) in enumerate(pieces):
        pushed.push(events[start:stop])
        if number == when:
            added, known = pushed.time, pushed.stream.add("p", second)
            is_whole = pushed.stream.stats.queries["p"].is_whole
            since = added if is_whole else inf if known is None else known
            assert is_whole or known is not None or "EMIT TOTAL" in second or "EVENTS" in second
        if number == gone:
            removed = pushed.time
            pushed.stream.remove("p")
        if data.draw(st.booleans()):
            pushed.reload()
    pushed.note(pushed.stream.close())
    assert sorted(came(pushed.found.get("q", []))) == sorted(row for _, row in answer(first, events))
    whole = Counter(row for final, row in answer(second, events) if since <= final and (final < removed or removed == inf))
    more = Counter(came(pushed.found.get("p", [])))
    assert not whole - more
    if since <= added:
        assert more == whole


@st.composite
def sharing(draw: st.DrawFn, counted: bool) -> str:
    """A short sequence, of which others are likely to have a part, or its count."""
    letters = draw(st.lists(st.sampled_from("ABC"), min_size=1 if counted else 2, max_size=3, unique=not counted))
    parts = ", ".join(f"{letter} v{number}" for number, letter in enumerate(letters))
    return f"SEQ({parts}) WITHIN {draw(st.sampled_from([3, 6, 6]))}{' AGG COUNT(*)' if counted else ''}"


@few
@given(data=st.data(), strategy=st.sampled_from(names("shared matches", "shared counts")), events=streams(max_time=20))
def test_queries_that_share_come_and_go(data: st.DataObject, strategy: str, events: list[oracle.Event]) -> None:
    """One is added, one removed and one replaced at any moment, while the others are counted or matched together."""
    first, second, third, more, instead = (data.draw(sharing(strategy in names("shared counts"))) for _ in range(5))
    show("\n".join((strategy, first, second, third, more, instead)), events)
    pieces = data.draw(cuts(len(events)))
    adding, removing, replacing = (data.draw(st.integers(0, len(pieces) - 1)) for _ in range(3))
    pushed = Pushed(sq.Stream({"a": first, "b": second, "c": third}, strategy=strategy, columns=SCHEMA))
    added = removed = replaced = inf
    for number, (start, stop) in enumerate(pieces):
        pushed.push(events[start:stop])
        if number == adding:
            added = pushed.time
            assert pushed.stream.add("d", more) is None
        if number == removing:
            removed = pushed.time
            pushed.stream.remove("b")
        if number == replacing:
            replaced = pushed.time
            assert pushed.stream.replace("c", instead) is None
        if data.draw(st.booleans()):
            pushed.reload()
    pushed.note(pushed.stream.close())
    expected = {
        "a": [row for _, row in answer(first, events)],
        "b": [row for final, row in answer(second, events) if final < removed],
        "c": [row for final, row in answer(third, events) if final < replaced]
        + [row for final, row in answer(instead, events) if final >= replaced],
        "d": [row for final, row in answer(more, events) if final >= added],
    }
    for name, wanted in expected.items():
        assert sorted(came(pushed.found.get(name, []))) == sorted(wanted), name
