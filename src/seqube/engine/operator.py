"""The one door of the engine: a plan goes in, an operator comes out, and nobody behind it asks which kind of plan it holds.

    open_plan(plan, limits)           -> operator
    operator.start()                  -> state
    operator.step(state, batch, watermark)  -> state, rows     what is final now
    operator.finish(state)            -> state, rows           what is left at the end of the stream
    operator.wake(state)              -> when, without any event, there will be something to say
    operator.restore(bytes)           -> state                 what `state.to_bytes()` wrote

A whole stream at once is `run`, or `pieces` where its rows may be more than fit; a slice of time is `within`. A step decides all
that ends before the watermark: no event before it is still to come. Without one, it is the newest event's time, at which more may
come. However a stream is cut into batches, the same rows come out, each once.

A state is *live*: the next step goes on with it in place (appends to arrays, moves their head, and never copies the window), so a
step consumes the state that it is given, and only the one it returns goes on. Who wants to come back to a state writes it first. It
is *durable* as bytes: `to_bytes` writes the events that may still matter with a few numbers, or the counters that stand for them,
and `restore` builds the live state from that, with the same answers. The live state is a cache of the durable one.

Invariant: an event before what was decided is refused, never silently too late; a state that was refused one is still the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, assert_never

import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import DataError
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.physical import MatchPlan

if TYPE_CHECKING:
    from seqube.plan.needs import Plan


# What comes of a state that holds other parts than are looked for. Its bytes are whole, for their checksum was right.
_MISFITS = (LookupError, ValueError, TypeError, AssertionError, pa.ArrowException)


class State(Protocol):
    """What must be remembered of a stream."""

    @property
    def has_begun(self) -> bool:
        """Whether there was a batch, be it an empty one: what the events look like is known."""

    @property
    def decided(self) -> int:
        """No event up to here can come any more."""

    @property
    def reported(self) -> int:
        """Every row up to here is out."""

    @property
    def n_kept(self) -> int:
        """How many events are kept; none where counters stand for them."""

    @property
    def n_bytes(self) -> int:
        """About what the live state takes."""

    @property
    def events(self) -> Events | None:
        """The events that are kept, put together when asked for (which costs as many as there are); None where there are none."""

    def to_bytes(self) -> bytes: ...


S = TypeVar("S", bound=State)
Rows = TypeVar("Rows")  # what comes out: a table, or one for each query of a workload


class Operator(ABC, Generic[S, Rows]):
    """A plan as a state machine over batches. `take`, `decide`, `step` and `finish` consume the state that they are given."""

    @abstractmethod
    def start(self) -> S: ...

    def restore(self, data: bytes) -> S:
        """The live state of what `to_bytes` wrote.

        One of another query is refused where it has other parts; streams and checkpoints keep with every state whose it is.
        """
        try:
            return self._restored(data)
        except _MISFITS as error:
            raise DataError(
                "this is the state of another query, or of one that was evaluated in another way\n"
                "  hint: go on with the query that it was written for, or begin the stream anew, with a new checkpoint"
            ) from error

    @abstractmethod
    def _restored(self, data: bytes) -> S: ...

    @abstractmethod
    def resume(self, events: Events, decided: int, reported: int, last: int) -> S:
        """The state of a stream of which these events may still matter and the last came at `last`."""

    @abstractmethod
    def wake(self, state: S) -> int | None:
        """The watermark at which, without any event, there may be something to say; None where there is none."""

    def goes_on(self, events: Events) -> bool:
        """Whether a step over events that look like these costs what is new, not what is kept."""
        return False

    @abstractmethod
    def take(self, state: S, batch: Events) -> S:
        """Remember a batch, without deciding anything."""

    @abstractmethod
    def decide(self, state: S, upto: int, final: bool) -> tuple[S, Rows]:
        """Give what is final when no event up to here can come any more, or (`final`) none at all."""

    def step(self, state: S, batch: Events | None, watermark: int | None = None) -> tuple[S, Rows | None]:
        """Take the next batch, if there is one, and give what is final; None if the stream has not begun."""
        newest = LOWEST
        if batch is not None:
            if state.has_begun and len(batch) and int(batch.times[0]) <= state.decided:
                raise DataError(
                    f"an event at {int(batch.times[0])} comes after the stream was decided up to {state.decided}\n"
                    "  hint: feed events in time order; late ones belong to the late output"
                )
            state = self.take(state, batch)
            newest = int(batch.times[-1]) - 1 if len(batch) else LOWEST
        if not state.has_begun:
            return state, None
        return self.decide(state, max(state.decided, newest if watermark is None else watermark - 1), final=False)

    def finish(self, state: S) -> tuple[S, Rows | None]:
        """Give what is left at the end of the stream; None if it never began."""
        return self.decide(state, HIGHEST, final=True) if state.has_begun else (state, None)

    def run(self, events: Events) -> Rows:
        """The rows of a whole stream."""
        return self.decide(self.take(self.start(), events), HIGHEST, final=True)[1]

    def pieces(self, events: Events, budget: Budget, threads: int = 1) -> Iterator[Rows]:
        """The rows of a whole stream in pieces, at least one, as they are found, by so many threads where it can be cut."""
        yield self.run(events)

    def within(
        self, events: Events, after: int, upto: int, numbers: Ints | None = None, budget: Budget | None = None
    ) -> Iterator[Rows]:
        """The rows that a slice of time owns: those that end in (after, upto]. Only some plans can be cut (`needs.can_be_cut`)."""
        assert (after, upto) == (LOWEST, HIGHEST), "what cannot be cut has one slice"
        yield self.run(events)


def open_plan(plan: Plan, limits: Limits = NO_LIMITS) -> Operator[Any, pa.Table]:
    """The operator that runs a plan. The limits are those of a step, or of a whole run."""
    match plan:
        case MatchPlan():
            from seqube.engine.matching import Matcher

            return Matcher(plan, limits)
        case AggregatePlan():
            from seqube.engine.aggregates.aggregation import Aggregator

            return Aggregator(plan, limits)
        case _:
            assert_never(plan)
