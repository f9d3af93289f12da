"""Event by event, views compute what the worked examples of the papers compute, and no more.

A trace says, at each trigger, how many instances of sub-queries were computed for views so far; between triggers nothing is.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from seqube.engine.matching import Matcher, State
from seqube.engine.views.intervals import BEGIN, END, HEAD, NEXT, RECORD
from seqube.engine.views.program import FIRST, HALF, LAST, N_VIEWS, SLAB_BEGIN, SLAB_COUNT, SLAB_WORDS, SLABS
from seqube.events import Events
from seqube.language import parse_file
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

View = list[tuple[tuple[int, int], list[tuple[int, int]]]]  # intervals, each with the records that lie under it; all in times


def load(folder: str, name: str | None = None, moved: dict[int, int] | None = None) -> tuple[str | None, object, Events]:
    """A query of an example, and its events; some of them may come at another time."""
    queries = parse_file((EXAMPLES / folder / "query.sqb").read_text())
    table = pyarrow.csv.read_csv(EXAMPLES / folder / "events.csv")
    times = [(moved or {}).get(time, time) for time in table.column("ts").to_pylist()]
    table = table.set_column(0, "ts", pa.array(times))
    return name, queries[name] if name is not None else next(iter(queries.values())), Events(table.sort_by("ts"))


def trace(strategy: str, query: object, events: Events) -> tuple[dict[int, int], list[View]]:
    """Instances computed when an event came, at the times at which there were any; and what the views hold at the end."""
    plan = plan_query(query, strategy=strategy)  # type: ignore[arg-type]
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan)
    state, computed, before = matcher.start(), {}, 0
    for row, time in enumerate(events.times.tolist()):
        state, _ = matcher.step(state, events.slice(row, row + 1), watermark=time + 1)
        assert state.views is not None
        if (now := state.views.loops.n_computed) > before:
            computed[time], before = now - before, now
    return computed, held(state, events.times.tolist())


def held(state: State, times: list[int]) -> list[View]:
    """What each view holds: every event is one of the plan's types, so positions are rows."""
    assert state.views is not None
    work, _, pool, intervals = state.views.loops.store
    found: list[View] = []
    for number in range(work[N_VIEWS]):
        slab = work[work[SLABS] + SLAB_WORDS * number :]
        view: View = []
        for interval in intervals[work[HALF], slab[SLAB_BEGIN] : slab[SLAB_BEGIN] + slab[SLAB_COUNT]]:
            records, record = [], interval[HEAD]
            while record >= 0:
                first, last = pool[work[HALF], record + RECORD + FIRST], pool[work[HALF], record + RECORD + LAST]
                records.append((times[first], times[last]))
                record = pool[work[HALF], record + NEXT]
            view.append(((times[interval[BEGIN]], times[interval[END] - 1]), records))
        found.append(view)
    return [view for view in found if view]


def test_a_csv_grows_to_the_right() -> None:
    """Example 1 (Figures 6 and 7): the second use finds the first interval's results, and computes the rest alone."""
    _, query, events = load("nested-views", "positive", {16: 19})  # the washing that only the use at 20 sees
    computed, views = trace("aggressive", query, events)
    assert computed == {18: 2, 20: 1}  # [1, 12]: s3 d10, s5 d10; then up to the second washing: d10 s14
    assert views == [[((1, 18), [(3, 10), (5, 10), (10, 14)])]]


def test_a_csv_of_a_negated_subquery_is_used_again() -> None:
    """Example 2: the same view, asked whether it is empty in an interval."""
    _, query, events = load("nested-views", "negated", {16: 19})
    assert trace("aggressive", query, events)[0] == {18: 2, 20: 1}


def test_a_csv_is_divided_by_value() -> None:
    """Example 3 (Figure 8): a partition of the view for each tool that is asked for."""
    _, query, events = load("nested-views", "by tool", {16: 19})
    computed, views = trace("aggressive", query, events)
    assert computed == {18: 1, 20: 1}
    assert views == [[((1, 18), [(3, 10), (10, 14)])], [((1, 18), [])]]  # tool 10; tool 25, which has no disinfection


@pytest.mark.parametrize(("strategy", "expected"), [("aggressive", 9), ("passive", 2), ("balanced", 2)])
def test_only_a_csv_computes_what_nobody_asks_for(strategy: str, expected: int) -> None:
    """Examples 4 and 5 (Figures 11 and 14): three sharpenings with three disinfections, of which [20, 26] holds two pairs."""
    _, query, events = load("nested-passive-views", "over-computation")
    computed, views = trace(strategy, query, events)
    assert computed == {30: expected}
    assert views[0][0][0] == ((16, 25) if strategy == "aggressive" else (21, 25))


def test_p_csv_keeps_flags_for_negated_subqueries() -> None:
    """Example 6 (Figure 15): intervals that hold an instance, and one that holds none; nothing is stored."""
    _, query, events = load("nested-passive-views", "emptiness")
    later = Events.concat([events, Events(pa.table({"ts": [31, 32], "type": ["Operate"] * 2, "id": [1, 1]}))])
    computed, views = trace("passive", query, later)
    assert computed == {30: 2}  # one instance is enough in (20, 26) and in (22, 26); the uses at 31 and 32 ask for the same
    assert views == [[((25, 25), [])], [((23, 25), [])]]  # known to be empty, and known not to be


@pytest.mark.parametrize("strategy", ["balanced", "aggressive", "passive"])
def test_caches_are_extended_by_what_is_new(strategy: str) -> None:
    """Example 3 of the paper on nested queries (Figure 7): [1, 15] serves again, [8, 26] is extended to [8, 30]."""
    _, query, events = load("nested-caching")
    computed, views = trace(strategy, query, events)
    assert computed == {26: 3, 30: 1}  # w2 dr3 s7, w2 dr6 s7 and c10 rl20; then c10 rl28; nothing at 34
    records = [sorted(record for _, under in view for record in under) for view in views]
    assert records == [[(2, 7), (2, 7)], [(10, 20), (10, 28)]]


def test_b_csv_moves_to_the_right_only() -> None:
    """Section 6: the intervals of all outer results of a trigger are joined first, so that what is there grows at its right end."""
    _, query, events = load("nested-caching")
    computed, views = trace("balanced", query, events)
    assert [[bounds for bounds, _ in view] for view in views] == [[(2, 10)], [(10, 28)]]
    assert computed == {26: 3, 30: 1}


def test_purging_drops_what_left_the_window() -> None:
    """Interval-driven cache reduction: with a window of 30, the use at 34 leaves nothing that begins before 5."""
    _, query, events = load("nested-caching")
    plan = plan_query(query, strategy="balanced")  # type: ignore[arg-type]
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan)
    state, _ = matcher.step(matcher.start(), events, watermark=35)
    assert state.views is not None
    state.views.move_up(0, [])
    assert [[record for _, under in view for record in under] for view in held(state, [6, 7, 8, 10, 15, 20, 26, 28, 30, 34])] == [
        [],
        [(10, 20), (10, 28)],
    ]
