"""Order beyond that of time: ORDER BY among events with equal times, and SKIP among matches.

ORDER BY sorts events that share a time by its columns, nulls last, and gives every event a rank: one event is after another where
its rank is larger, and equal ranks are never one after the other.

SKIP goes through the matches of a stream in the order in which they end. A match that is taken drops those behind it that start
before some event of it, which is a bound for each partition that only grows; or that start with the same event (TO NEXT).

    PAST LAST   the event after its last one          TO FIRST v, TO LAST v   that event; an absent v bounds nothing

Cost: a sort of the events; a sort of the matches, all of which are held, and a pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from seqube.engine.bindings import Ints, Mask, first_rows, last_rows
from seqube.engine.conjunction import in_columns
from seqube.engine.instances import Batch, Instances, gather
from seqube.engine.jit import kernel
from seqube.engine.predicates import Evaluator, normalise, rank
from seqube.engine.sequence import LOWEST
from seqube.errors import PlanError
from seqube.events import Events
from seqube.language.tree import Skip
from seqube.plan.physical import MatchPlan, list_variables

# ---------------------------------------------------------------- events


def _order_keys(events: Events, names: tuple[str, ...]) -> list[Ints]:
    """The time, and for each column whether it is null and where its value stands among the others."""
    keys, evaluator = [events.times], Evaluator(events)
    for name in names:
        column = normalise(events.column(name), name)
        (values,) = rank([column], evaluator)
        is_null = np.asarray(pc.is_null(column)).astype(np.int64)
        keys += [is_null, np.where(is_null, 0, values)]
    return keys


def order_events(events: Events, names: tuple[str, ...]) -> Events:
    """Events in the order of ORDER BY."""
    return events.take(np.lexsort(_order_keys(events, names)[::-1]))


def rank_events(events: Events, names: tuple[str, ...]) -> Ints:
    """The ranks of events that are in order: equal where time and columns are."""
    differs = np.zeros(len(events), np.bool_)
    for key in _order_keys(events, names):
        differs[1:] |= np.diff(key) != 0
    return np.cumsum(differs)


# ---------------------------------------------------------------- matches


def refuse_pieces(plan: MatchPlan) -> None:
    """Raise a `PlanError` for what cannot be said of a stream before it is over."""
    if plan.skip is not None:
        raise PlanError("SKIP leaves out matches by all that end before them: it needs the whole stream\n  hint: use sq.run")


def skip_matches(skip: Skip, pieces: Iterator[Instances], plan: MatchPlan, batch: Batch) -> Instances:
    """The matches that remain, in the order in which they end."""
    held = []
    for piece in pieces:
        batch.budget.hold(piece.n_bytes)
        held.append(piece.copy())
    found = gather(held, plan.variables, list_variables(plan.pattern))
    keys = [found.last_rows, found.first_rows, *(rows for name in plan.variables for rows in in_columns(found.rows[name]))]
    found = found.select(np.lexsort(keys[::-1]))
    if skip.variable is None:
        bounds = found.last_rows + 1 if skip.to == "PAST LAST" else np.full(len(found), LOWEST)
    else:
        column = found.rows[skip.variable]
        bounds = (first_rows if skip.to == "TO FIRST" else last_rows)(column)
    groups = np.zeros(len(found), np.int64) if batch.partitions is None else batch.partitions[found.last_rows]
    bound_of = np.full(int(groups.max(initial=0)) + 1, LOWEST)
    has_begun = np.zeros(len(batch.times), np.bool_)
    return found.select(_taken(groups, found.first_rows, bounds, bound_of, has_begun, skip.to == "TO NEXT"))


@kernel
def _taken(groups: Ints, starts: Ints, bounds: Ints, bound_of: Ints, has_begun: Mask, once: bool) -> Mask:
    """Which matches are taken; with `once`, one for each first event."""
    taken = np.zeros(len(starts), np.bool_)
    for k in range(len(starts)):
        start, group = starts[k], groups[k]
        if start < bound_of[group] or (once and has_begun[start]):
            continue
        taken[k] = True
        has_begun[start] = True
        bound_of[group] = max(bound_of[group], bounds[k])
    return taken
