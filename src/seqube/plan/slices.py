"""Whether a stream that is at hand is answered in slices, by what it is cut, and into how many.

A slice of time owns what ends in it, and sees the events of a window around it; a slice by key owns whatever its keys have. Each is
answered by itself, so that several threads answer several at a time. How a stream is cut follows from the plan and the events,
never from the number of threads: so the same rows come in the same order, however many there are.

    slice 1 owns .. 20              slice 2 owns 21 .. 45              slice 3 owns 46 ..
    ---------------------20 |  20-W ------- 20 ------------ 45 |  45-W ----- 45 ------------

Cost: linear in the plan. Invariant: what is not known here is not cut; `why` says so, and `explain` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seqube.events.statistics import Statistics
from seqube.plan.aggregates import MATCHES, AggregatePlan, chain_of, free_slots
from seqube.plan.needs import Needs, Plan, needs_of
from seqube.plan.physical import MatchSequence, Scan
from seqube.threads import n_pieces

SLICE_EVENTS = 1 << 15  # events that matter in a slice: fewer cost more to set up than they save
SLICE_WORK = 1 << 17  # events and matches in a slice of a sequence of single events, found or counted: little time for each
LEAST_WINDOWS = 4  # a slice is at least so many times as long as what it looks at beside its own


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many slices, and by what: None where it is one, and then why, unless there is too little to cut."""

    n_slices: int
    by: Literal["time", "key"] | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.by is None:
            return f"on one thread: {self.why}" if self.why else ""
        return f"on all threads: about {self.n_slices:,} slices, cut by {self.by}"


def cut_of(plan: Plan, unit: str, statistics: Statistics) -> Cut:
    """How a whole stream with these statistics is cut."""
    needs = needs_of(plan, unit)
    n_slices = _worth(plan, needs, statistics)
    if n_slices < 2:
        return Cut(1)
    why = why_not_in_time(plan, needs)
    if why is None:
        around = needs.window if needs.by_position else needs.back + needs.ahead
        length = statistics.n if needs.by_position else statistics.span
        if (fitting := min(n_slices, length // max(1, LEAST_WINDOWS * around))) > 1:
            return Cut(fitting, "time")
        why = "its window is too long beside the stream to cut it in time"
    if not needs.key:
        return Cut(1, None, f"{why}, and it has no key")
    if isinstance(plan, AggregatePlan):
        return Cut(1, None, f"{why}, and its rows are reported for all keys together")
    return Cut(n_slices, "key")


def cut_together(plans: Sequence[AggregatePlan], unit: str, statistics: Statistics) -> tuple[AggregatePlan, Cut]:
    """How a stream is cut whose queries are counted together, and the one that looks farthest beside a slice.

    Buckets would be torn apart: a slice reports them when they are over.
    """
    widest = max(plans, key=lambda plan: needs_of(plan, unit).back)
    cuts = [cut_of(plan, unit, statistics) for plan in plans]
    fits = all(cut.by == "time" and plan.emit.when != "per" for cut, plan in zip(cuts, plans, strict=True))
    return widest, Cut(min(cut.n_slices for cut in cuts), "time") if fits else Cut(1)


def _worth(plan: Plan, needs: Needs, statistics: Statistics) -> int:
    """How many slices have enough to do each."""
    n_events, pattern = statistics.count(needs.types), plan.matches.pattern
    most = n_events // SLICE_EVENTS
    if isinstance(plan, AggregatePlan) and _is_plain_count(plan):
        return n_events // SLICE_WORK
    if not isinstance(pattern, MatchSequence):
        return most
    if isinstance(plan, AggregatePlan) and not (plan.strategy == "two-step" and plan.emit.counts_once):
        return most
    parts = [part for part in pattern.slots if isinstance(part, Scan)]
    if len(parts) < len(pattern.slots):
        return most
    if pattern.key or plan.matches.partition_by:
        return min(most, n_events // SLICE_WORK)  # a key leaves few matches for each event
    length = max(1, statistics.n if needs.by_position else statistics.span)
    n_matches, share = float(statistics.count(parts[0].types)), min(needs.window / length, 1.0)
    for number, part in enumerate(parts[1:], 1):
        n_matches *= statistics.count(part.types) * share / number
    return int(min(most, (n_events + n_matches) / SLICE_WORK))


def _is_plain_count(plan: AggregatePlan) -> bool:
    """Whether nothing but matches is counted, each once, and in little time for each event."""
    if plan.strategy != "window-product" or not plan.emit.counts_once or plan.measures != (MATCHES,):
        return False
    chain = chain_of(plan)
    if isinstance(chain, str) or not chain.is_plain or chain.key or plan.matches.partition_by:
        return False
    return not plan.group_by or free_slots(plan, chain) is not None


def n_stretches(statistics: Statistics, around: int, threads: int) -> int:
    """Into how many stretches of time a stream is cut where the cut does not show in the answer, so that threads may decide it.

    `around` is how far each looks beside its own.
    """
    return max(1, min(n_pieces(statistics.n, threads), statistics.span // max(1, LEAST_WINDOWS * around)))


def why_not_in_time(plan: Plan, needs: Needs) -> str | None:
    """Why a stream cannot be cut in time; None where it can."""
    if plan.matches.skip is not None:
        return "SKIP leaves out matches by all that end before them"
    if needs.by_position and plan.matches.partition_by:
        return "each partition has a window of its own events"
    return None
