"""Queries of one key that are watched together: each has the rows that it has by itself, however it is cut. Without Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import bound_rows

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, families
from answers import show
from cube.workloads import workloads
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.engine.ecube.adaptation import SharedMatcher
from seqube.engine.limits import NO_LIMITS
from seqube.events import Events
from seqube.language import parse
from seqube.plan.strategies import names
from seqube.spark.ingest import KEY
from seqube.spark.planning import plan_stream
from seqube.spark.rows import ship_query
from seqube.spark.streaming.at_hand import AT_HAND
from seqube.spark.streaming.together import SharedWorkload, WatchTogether, may_go_together, no_events
from seqube.spark.transport.blobs import write_blob
from strategies import hierarchies, streams
from strategies import spark_table as as_table


def watches(texts: dict[str, str], schema: Any, tree: Any, strategy: str) -> list[WatchTogether]:
    concepts, queries = sq.Hierarchy.from_dict(tree) if tree else None, {name: parse(text) for name, text in texts.items()}
    shipped = {name: ship_query(plan, schema) for name, plan in plan_stream(queries, concepts, strategy).items()}
    return list(SharedWorkload(queries, concepts, strategy).watches(shipped, schema, NO_LIMITS).values())


def replayed(watch: WatchTogether, table: pa.Table, cuts: list[int], forget: set[int]) -> dict[str, list[dict[str, Any]]]:
    """What comes out of micro-batches, each with the watermark that the ones before have brought; some workers know nothing."""
    held, store, found = None, {}, {name: [] for name in watch.wanted.queries}
    times, ends = table.column("ts").to_numpy(), [-1, *sorted(set(cuts)), 1_000]
    for number, (before, end) in enumerate([*pairwise(ends), (1_000, 1_000)]):
        if number in forget:
            AT_HAND.clear()
        piece = table.filter(pa.array((times > before) & (times <= end)))
        outcome = watch.take(held, [write_blob(keyed(piece, watch))] if piece.num_rows else [], before, store)
        held = outcome.held
        for name, rows in watch.by_query(outcome.matches) if outcome.matches is not None else ():
            found[name] += rows.to_pylist()
    return found


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12), strategy=st.sampled_from(names("shared matches")))
def test_matches_of_a_workload(data: st.DataObject, tree: Any, events: list[oracle.Event], strategy: str) -> None:
    texts = data.draw(workloads(tree))
    show("\n".join(texts.values()), events, tree)
    table, concepts = as_table(events), sq.Hierarchy.from_dict(tree) if tree else None
    cuts, forget = data.draw(st.lists(st.integers(0, 12), max_size=4)), data.draw(st.sets(st.integers(0, 5), max_size=2))
    for watch in watches(texts, Events(table).schema, tree, strategy):
        AT_HAND.clear()
        for name, rows in replayed(watch, table, cuts, forget).items():
            assert bound_rows(rows) == bound_rows(sq.run(texts[name], table, hierarchy=concepts).table.to_pylist()), texts[name]


EMITS = ["EVERY {}", "EVERY 2", "EVERY 5", "ON TRIGGER"]


@settings(max_examples=settings.default.max_examples // 2)
@given(
    data=st.data(),
    workload=families(EMITS, ["x", "y", "ts"]),
    events=streams(max_time=14),
    strategy=st.sampled_from(["auto", *names("shared counts")]),
)
def test_counts_of_a_workload(data: st.DataObject, workload: dict[str, str], events: list[oracle.Event], strategy: str) -> None:
    show("\n".join(workload.values()), events, {})
    table = as_table(events)
    cuts, forget = data.draw(st.lists(st.integers(0, 14), max_size=4)), data.draw(st.sets(st.integers(0, 5), max_size=2))
    for watch in watches(workload, Events(table).schema, None, strategy):
        AT_HAND.clear()
        for name, rows in replayed(watch, table, cuts, forget).items():
            assert_same_rows(rows, oracle.aggregates(parse(workload[name]), events))


@pytest.mark.parametrize("strategy", ["auto", "chase", "prefix-tree"])
def test_what_shares_is_what_was_asked_for(strategy: str) -> None:
    texts = {
        "all": "SEQ(A a, B b) WITHIN 5",
        "longer": "SEQ(A a, B b, C c) WITHIN 5",
        "count": "SEQ(A a, B b) AGG COUNT(*) WITHIN 5",
        "longer count": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 5",
        "keyed": "SEQ(A a, B b, [id]) WITHIN 5",  # has another key
        "waiting": "SEQ(A a, !B b) WITHIN 5",  # is final when its window is over
        "counted": "SEQ(A a, B b) WITHIN 5 EVENTS",  # other events count
        "skipping": "SEQ(A a, B b) SKIP PAST LAST WITHIN 5",  # what was taken is no event of the window
        "by bucket": "SEQ(A a, B b) AGG COUNT(*) WITHIN 5 EMIT PER 10",  # so is what an open bucket holds
        "every": "SEQ(A a, B b) AGG COUNT(*) WITHIN 5 EMIT EVERY 10",  # looks at every event, and has no company that does
    }
    table = as_table([oracle.Event("ABCB"[i % 4], i, {"id": 1}, i) for i in range(60)])
    (watch,) = watches(texts, Events(table).schema, None, strategy)
    together = list(texts)[:4]
    assert list(watch.wanted.queries) == together
    kinds = {type(part.operator) for part in watch.wanted.operator._parts.values()}
    assert (SharedMatcher in kinds, SharedAggregator in kinds) == (strategy == "chase", strategy == "prefix-tree")
    found = replayed(watch, table, [7, 20, 21, 50], {2})
    for name in together:
        expected = sq.run(texts[name], table).table.to_pylist()
        assert sorted(map(repr, found[name])) == sorted(map(repr, expected)), name
    assert (
        watch.fingerprint
        != watches({**texts, "all": "SEQ(A a, B b) WITHIN 6"}, Events(table).schema, None, strategy)[0].fingerprint
    )
    assert KEY not in watch.keeping.hidden


# ---------------------------------------------------------------- queries that come and go

EVERY = {
    "every": "SEQ(A a, B b) AGG COUNT(*) WITHIN 4 EMIT EVERY 3",
    "every longer": "SEQ(A a, B b, C c) AGG COUNT(*), SUM(b.x) WITHIN 6 EMIT EVERY 3",
    "every other": "SEQ(A a, B b, [id]) AGG COUNT(*) GROUP BY a.id WITHIN 5 EMIT EVERY 2",
    "seldom": "SEQ(A a, !C c, B b) AGG COUNT(*), MAX(b.x) WITHIN 2 EMIT EVERY 7",
}
COUNTED = {
    "counted": "SEQ(A a, B b) AGG COUNT(*) WITHIN 4",
    "longer": "SEQ(A a, B b, C c) AGG COUNT(*), SUM(b.x) WITHIN 6",
    "keyed": "SEQ(A a, B b, [id]) AGG COUNT(*) WITHIN 5",
    "also keyed": "SEQ(A a, B b, C c, [id]) AGG COUNT(*) WITHIN 5",
}


class Edited:
    """A stream whose queries come and go, each with what the rows that it has seen have decided."""

    def __init__(self, table: pa.Table, tree: Any, strategy: str) -> None:
        self.schema, self.strategy = Events(table).schema, strategy
        self.concepts = sq.Hierarchy.from_dict(tree) if tree else None
        self.held: dict[str, Any] = {}
        self.stores: dict[str, dict[int, bytes]] = {}
        self.found: dict[str, list[dict[str, Any]]] = {}

    def take(self, asked: dict[str, tuple[str, int]], rows: pa.Table, watermark: int) -> None:
        """A micro-batch with these queries, each with its generation; those that cannot go together are left out."""
        queries = {name: parse(text) for name, (text, _) in asked.items()}
        plans = plan_stream(queries, self.concepts, self.strategy, refuses=False)
        shipped = {name: ship_query(plan, self.schema) for name, plan in plans.items()}
        nothing = no_events(self.schema)
        since = {name: asked[name][1] for name, own in shipped.items() if may_go_together(own, nothing)}
        workload = SharedWorkload(queries, self.concepts, self.strategy)
        for name, watch in workload.watches(shipped, self.schema, NO_LIMITS, since).items():
            store = self.stores.setdefault(name, {})
            outcome = watch.take(self.held.get(name), [write_blob(watch.arriving.select(keyed(rows, watch)))], watermark, store)
            self.held[name] = outcome.held
            for query, told in watch.by_query(outcome.matches) if outcome.matches is not None else ():
                self.found.setdefault(query, []).extend(told.to_pylist())
        for query in since:
            self.found.setdefault(query, [])


def keyed(rows: pa.Table, watch: WatchTogether) -> pa.Table:
    return rows.append_column(KEY, pa.array([0] * len(rows), pa.int32())) if KEY in watch.arriving.hidden else rows


def told(text: str, rows: list[dict[str, Any]]) -> Any:
    return sorted(map(repr, rows)) if parse(text).aggregates else bound_rows(rows)


@pytest.mark.slow  # in the everyday run: one query that comes later, below
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12), strategy=st.sampled_from(["auto", "chase", "prefix-tree"]))
def test_queries_come_and_go_and_find_what_they_would_by_themselves(
    data: st.DataObject, tree: Any, events: list[oracle.Event], strategy: str
) -> None:
    """Rows come out of order and late, workers forget, queries come at any micro-batch and go at any later one."""
    texts = COUNTED | EVERY | data.draw(workloads(tree))
    show("\n".join(texts.values()), events, tree)
    table, n = as_table(events), 5
    ends = sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=n - 1, max_size=n - 1)))
    order = data.draw(st.permutations(range(len(events))))
    batches = [table.take(pa.array(order[a:b], pa.int64())) for a, b in pairwise([0, *ends, len(events)])]
    marks = [*sorted(data.draw(st.lists(st.integers(-1, 14), min_size=n, max_size=n))), 1_000]
    first = {name: data.draw(st.sampled_from([0, 0, 1, 2, 3, 4])) for name in texts}
    gone = {name: data.draw(st.integers(first[name] + 1, n + 1) | st.just(n + 1)) for name in texts}
    stream = Edited(table, tree, strategy)
    AT_HAND.clear()
    with mock.patch("seqube.spark.streaming.together.TELLING_EVENTS", data.draw(st.sampled_from([1, 1_000]))):
        for number, rows in enumerate([*batches, table.slice(0, 0)]):
            if data.draw(st.booleans()):
                AT_HAND.clear()
            stream.take({q: (texts[q], first[q]) for q in texts if first[q] <= number < gone[q]}, rows, marks[number])
    for name, rows in stream.found.items():
        seen = range(first[name], min(gone[name], n))
        came = [batches[k].filter(pa.array(batches[k].column("ts").to_numpy() > marks[k])) for k in seen]
        known = pa.concat_tables([table.slice(0, 0), *came])
        known = known.filter(pa.array(known.column("ts").to_numpy() <= marks[gone[name] - 1]))
        wanted = sq.run(texts[name], known, hierarchy=stream.concepts).table.to_pylist()
        decided = [row for row in wanted if row["end" if "end" in row else "ts"] <= marks[gone[name] - 1]]
        assert told(texts[name], rows) == told(texts[name], decided), texts[name]


@pytest.mark.parametrize("strategy", ["auto", "prefix-tree"])
def test_reports_at_moments_of_their_own_have_one_state(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late rows, workers that forget, a query that comes later and one that goes; most events are nobody's, and are not kept."""
    monkeypatch.setattr("seqube.spark.streaming.together.TELLING_EVENTS", 20)
    kinds = ["A", *"XXXXX", "B", *"XXXX", "C", *"XXXX"]  # eight at a time
    rows = as_table([oracle.Event(kinds[i % 16], i // 8, {"id": i % 3, "x": i % 5}, i) for i in range(3_200)])
    late = rows.filter(pa.array(rows.column("ts").to_numpy() % 97 == 0))
    stream, largest = Edited(rows, None, strategy), 0
    AT_HAND.clear()
    for number in range(20):
        if number % 3 == 1:
            AT_HAND.clear()
        mark = 20 * number - 8
        asked = {name: (text, 5 * (name == "seldom")) for name, text in EVERY.items()}
        asked = {name: how for name, how in asked.items() if how[1] <= number and not (name == "every" and number > 11)}
        again = late.filter(pa.array(late.column("ts").to_numpy() <= mark))
        stream.take(asked, pa.concat_tables([rows.slice(160 * number, 160), again]), mark)
        (held,) = stream.held.values()
        largest = max(largest, held.n_rows)
    stream.take(asked, rows.slice(0, 0), 1_000)
    assert list(stream.held) == ["#together #every"]
    assert largest < 200  # though 160 come at once, and wait until the window has left them
    for name, text in EVERY.items():
        wanted = sq.run(text, rows.slice(800 * (name == "seldom"))).table
        known = wanted if name != "every" else wanted.filter(pa.array(wanted.column("ts").to_numpy() <= 212))
        assert told(text, stream.found[name]) == told(text, known.to_pylist()), name


def test_a_query_in_the_place_of_all_others_begins_with_its_own_rows() -> None:
    for before, after in (("SEQ(A a, B b) WITHIN 9", "SEQ(A a, B b) WITHIN 8"), (EVERY["every"], EVERY["seldom"])):
        table = as_table([oracle.Event("AB"[i % 2], i, {"id": 1, "x": 1}, i) for i in range(40)])
        stream = Edited(table, None, "auto")
        AT_HAND.clear()
        stream.take({"q": (before, 0)}, table.slice(0, 20), -1)
        stream.take({"r": (after, 1)}, table.slice(20), 10)
        stream.take({"r": (after, 1)}, table.slice(0, 0), 100)
        assert told(after, stream.found["r"]) == told(after, sq.run(after, table.slice(20)).table.to_pylist())


def test_a_new_query_shares_when_the_rows_before_it_are_forgotten() -> None:
    texts = {"all": "SEQ(A a, B b) WITHIN 5", "longer": "SEQ(A a, B b, C c) WITHIN 5"}
    table = as_table([oracle.Event("ABC"[i % 3], i, {"id": 1}, i) for i in range(60)])
    stream, made = Edited(table, None, "chase"), []
    AT_HAND.clear()
    with mock.patch(
        "seqube.spark.streaming.together.SharedMatcher",
        side_effect=lambda *a, **k: made.append(list(a[0])) or SharedMatcher(*a, **k),
    ):
        for number, start in enumerate(range(0, 60, 10)):
            asked = {name: (texts[name], 2 * place) for place, name in enumerate(texts) if 2 * place <= number}
            stream.take(asked, table.slice(start, 10), start - 1)
        stream.take(asked, table.slice(0, 0), 100)
    assert made == [["all"], ["all"], ["longer"], ["all", "longer"]]  # the new one by itself, until nothing older is kept
    for name, first in (("all", 0), ("longer", 20)):
        assert told(texts[name], stream.found[name]) == told(texts[name], sq.run(texts[name], table.slice(first)).table.to_pylist())


def test_counts_share_as_the_events_say(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        f"q{i}": f"SEQ({', '.join(f'{t} v{n}' for n, t in enumerate('ABCABC'[:i]))}) AGG COUNT(*) WITHIN 500" for i in range(2, 7)
    }
    table = as_table([oracle.Event("ABC"[i % 3], i, {"id": 1}, i) for i in range(6_000)])
    for strategy, shares in (("auto", True), ("independent", False)):
        stream, taken = Edited(table, None, strategy), []
        AT_HAND.clear()
        monkeypatch.setattr(SharedAggregator, "decide", lambda *a, of=SharedAggregator.decide, to=taken: to.append(1) or of(*a))
        for start in range(0, 6_000, 1_000):
            stream.take({name: (text, 0) for name, text in texts.items()}, table.slice(start, 1_000), start - 1)
        stream.take({name: (text, 0) for name, text in texts.items()}, table.slice(0, 0), 10_000)
        monkeypatch.undo()
        assert bool(taken) == shares
        for name, text in texts.items():
            assert told(text, stream.found[name]) == told(text, sq.run(text, table).table.to_pylist())


@pytest.mark.parametrize("strategy", ["auto", "prefix-tree"])
def test_windows_and_periods_are_lengths_of_time(strategy: str) -> None:
    """Whatever the ticks of the stream are."""
    patterns = {"short": "A a, B b", "long": "A a, B b, C c"}
    texts = {
        f"{name}, {emit}": f"SEQ({pattern}) AGG COUNT(*) WITHIN 5 s EMIT {emit}"
        for name, pattern in patterns.items()
        for emit in ("ON TRIGGER", "EVERY 3 s")
    }
    moments = pa.array(np.arange(60) * 1_000_000, pa.timestamp("us"))
    table = pa.table({"type": ["ABC"[i % 3] for i in range(60)], "ts": moments})
    stream = Edited(table, None, strategy)
    AT_HAND.clear()
    for start in range(0, 80, 20):
        stream.take({name: (text, 0) for name, text in texts.items()}, table.slice(start, 20), start * 1_000_000 - 1)
    stream.take({name: (text, 0) for name, text in texts.items()}, table.slice(0, 0), 100_000_000)
    for name, text in texts.items():
        assert told(text, stream.found[name]) == told(text, sq.run(text, table).table.to_pylist()), name


def test_operators_side_by_side_are_written_and_read() -> None:
    texts = {
        "all": "SEQ(A a, B b) WITHIN 5",
        "longer": "SEQ(A a, B b, C c) WITHIN 5",
        "n": COUNTED["counted"],
        "m": COUNTED["longer"],
    }
    table = as_table([oracle.Event("ABC"[i % 3], i, {"id": 1}, i) for i in range(60)])
    for strategy in ("chase", "prefix-tree", "auto"):
        (watch,) = watches(texts, Events(table).schema, None, strategy)
        operator = watch.wanted.operator
        state, before = operator.step(operator.start(), Events(table.slice(0, 30)), 25)
        _, after = operator.step(operator.restore(state.to_bytes()), Events(table.slice(30)), 100)
        for name, text in texts.items():
            rows = [row for found in (before, after) for row in found[name].to_pylist()]
            assert told(text, rows) == told(text, sq.run(text, table).table.to_pylist())


def test_switches_of_plans_are_told_and_nothing_comes_twice() -> None:
    """At first nearly no two events agree on their key, then all do: the plan is changed, and the new one alone reports."""
    patterns = {"wide": "P a, Q b", "fine": "A a, C b", "longer": "A a, C b, D c"}
    texts = {
        name: f"SEQ({pattern}, [key]) WITHIN 2000 RETURN {', '.join(f'{part[2]}.ts AS {part[2]}' for part in pattern.split(', '))}"
        for name, pattern in patterns.items()
    }
    tree, n, random = {"P": ["A", "B"], "Q": ["C", "D"]}, 2_300, np.random.default_rng(3)
    keys = np.where(np.arange(n) < 1_500, np.arange(n) // 2, -1)
    table = pa.table({"type": [str(kind) for kind in random.choice(list("ABCD"), n)], "ts": np.arange(n) * 10, "key": keys})
    AT_HAND.clear()
    (watch,) = watches(texts, Events(table).schema, tree, "chase")
    held, store, switched, rows = None, {}, [], {name: [] for name in texts}
    for start in range(0, n + 200, 100):
        piece = table.slice(start, 100)
        outcome = watch.take(held, [write_blob(keyed(piece, watch))] if len(piece) else [], start * 10 - 1, store)
        held = outcome.held
        switched.append((outcome.switches, outcome.plan))
        for name, found in watch.by_query(outcome.matches) if outcome.matches is not None else ():
            rows[name].append(found)
    assert [plan for switches, plan in switched if switches] == ["wide by itself, fine from wide, longer from fine"]
    assert all((plan is None) == (switches == 0) for switches, plan in switched)
    for name, text in texts.items():
        expected = sq.run(text, table, hierarchy=sq.Hierarchy.from_dict(tree)).table
        order = [(column, "ascending") for column in expected.column_names]
        assert pa.concat_tables(rows[name]).sort_by(order).equals(expected.sort_by(order)), name
