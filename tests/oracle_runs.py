"""What NEXT and STRICT find, start by start, and which matches SKIP leaves: the rules of the page on meaning, walked one by one.

A run is a list of groups, one for each positive part: the events that the part has taken. `asks` says whether everything that can
be asked of a run so far is true: of groups that the run has left as wholes, of the one it is in event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from seqube.language import tree

Group = tuple[tuple[str, Any], ...]  # (variable, event) of each event that a part took
Groups = tuple[Group, ...]  # of the parts up to the one the run is in


@dataclass(frozen=True)
class Run:
    """What a start comes to: its groups, and whether it is a match."""

    groups: Groups
    is_match: bool


@dataclass(frozen=True)
class Runner:
    """One NEXT or STRICT over one stream, in its order."""

    parts: Sequence[tree.Type | tree.Or]  # the positive ones
    events: Sequence[Any]
    takes: Callable[[tree.Type, Any], bool]  # whether an event is of a type
    after: Callable[[Any, Any], bool]  # whether the second event is after the first
    in_window: Callable[[Any, Any], bool]  # of a first and a last event
    asks: Callable[[Groups, bool], bool]  # whether what can be asked is true; of a run that is over, everything can

    def least(self, part: int) -> int:
        quantifier = _quantifier(self.parts[part])
        return 1 if quantifier is None else quantifier.least

    def most(self, part: int) -> float:
        quantifier = _quantifier(self.parts[part])
        return 1 if quantifier is None else float("inf") if quantifier.most is None else quantifier.most

    def reluctant(self, part: int) -> bool:
        quantifier = _quantifier(self.parts[part])
        return quantifier is not None and quantifier.reluctant

    def variables(self, part: int, event: Any) -> Iterator[str]:
        """By which variables a part can take an event: of an OR, an earlier one before a later one."""
        node = self.parts[part]
        for leaf in node.parts if isinstance(node, tree.Or) else (node,):
            assert isinstance(leaf, tree.Type)
            assert leaf.variable is not None
            if self.takes(leaf, event):
                yield leaf.variable

    # ---------------------------------------------------------------- NEXT

    def next_runs(self) -> Iterator[Run]:
        """A run for every event that fits the first part, or past parts that may be absent a later one."""
        for at, event in enumerate(self.events):
            groups = self._moved((), event)
            if groups is not None:
                yield self._followed(groups, event, self.events[at + 1 :])

    def _followed(self, groups: Groups, first: Any, rest: Sequence[Any]) -> Run:
        last = first
        for event in rest:
            if self._is_over(groups):
                return Run(groups, True)
            if not self.in_window(first, event):
                break
            if not self.after(last, event):
                continue
            here = len(groups) - 1
            choices = [self._added, self._moved]
            for choice in reversed(choices) if self.reluctant(here) else choices:
                taken = choice(groups, event)
                if taken is not None:
                    groups, last = taken, event
                    break
        return Run(groups, self._may_end(groups))

    def _added(self, groups: Groups, event: Any) -> Groups | None:
        """The event in the repeated part that the run is in, while there is room."""
        if len(groups[-1]) < self.most(len(groups) - 1):
            for variable in self.variables(len(groups) - 1, event):
                longer = (*groups[:-1], (*groups[-1], (variable, event)))
                if self.asks(longer, False):
                    return longer
        return None

    def _moved(self, groups: Groups, event: Any) -> Groups | None:
        """The event in the next part or, past parts that may be absent, in the first one that it fits."""
        if groups and len(groups[-1]) < self.least(len(groups) - 1):
            return None
        for part in range(len(groups), len(self.parts)):
            for variable in self.variables(part, event):
                longer = (*groups, *((),) * (part - len(groups)), ((variable, event),))
                if self.asks(longer, False):
                    return longer
            if self.least(part) > 0:
                return None
        return None

    def _may_end(self, groups: Groups) -> bool:
        rest = range(len(groups), len(self.parts))
        return (
            len(groups[-1]) >= self.least(len(groups) - 1)
            and all(self.least(part) == 0 for part in rest)
            and self.asks(groups, True)
        )

    def _is_over(self, groups: Groups) -> bool:
        """Whether it is a match at once: it waits for nothing."""
        here, rest = len(groups) - 1, range(len(groups), len(self.parts))
        waits = len(groups[-1]) < self.most(here) and not self.reluctant(here)
        return not waits and all(self.reluctant(part) for part in rest) and self._may_end(groups)

    # ---------------------------------------------------------------- STRICT

    def strict_runs(self) -> Iterator[Run]:
        """For every start the preferred match of the regular expression, if there is one."""
        for at, event in enumerate(self.events):
            found = next((groups for groups in self._spelled((), at, event) if any(groups) and self.asks(groups, True)), None)
            if found is not None:
                yield Run(found, True)

    def _spelled(self, groups: Groups, at: int, first: Any) -> Iterator[Groups]:
        """All ways in which the parts from here on spell consecutive events, the preferred ones first."""
        if len(groups) == len(self.parts):
            yield groups
            return
        for group, to in self._repeated(len(groups), (), at, first):
            yield from self._spelled((*groups, group), to, first)

    def _repeated(self, part: int, group: Group, at: int, first: Any) -> Iterator[tuple[Group, int]]:
        stop = [(group, at)] if len(group) >= self.least(part) else []
        if self.reluctant(part):
            yield from stop
        if len(group) < self.most(part) and at < len(self.events) and self.in_window(first, self.events[at]):
            for variable in self.variables(part, self.events[at]):
                yield from self._repeated(part, (*group, (variable, self.events[at])), at + 1, first)
        if not self.reluctant(part):
            yield from stop


def _quantifier(part: tree.Type | tree.Or) -> tree.Quantifier | None:
    return part.quantifier if isinstance(part, tree.Type) else None


# ---------------------------------------------------------------- SKIP

Place = tuple[tuple[int, ...], ...]  # the positions of a match's events, variable by variable


def left_by_skip(skip: tree.Skip, variables: Sequence[str], found: Sequence[Place]) -> list[int]:
    """Which of some matches of one stream remain, by their numbers."""

    def first(place: Place) -> int:
        return min(position for group in place for position in group)

    def last(place: Place) -> int:
        return max(position for group in place for position in group)

    def drops(taken: Place, other: Place) -> bool:
        group = taken[variables.index(skip.variable)] if skip.variable is not None else ()
        match skip.to:
            case "PAST LAST":
                return first(other) <= last(taken)
            case "TO NEXT":
                return first(other) == first(taken)
            case "TO FIRST":
                return bool(group) and first(other) < group[0]
            case "TO LAST":
                return bool(group) and first(other) < group[-1]

    waiting = sorted(range(len(found)), key=lambda n: (last(found[n]), first(found[n]), found[n]))
    remaining = []
    while waiting:
        taken, *rest = waiting
        remaining.append(taken)
        waiting = [n for n in rest if not drops(found[taken], found[n])]
    return remaining
