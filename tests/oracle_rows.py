"""What a row pattern means, straight from the definition: every way to match, in the order of preference, and the first one counts.

Nothing of Seqube is used here. A pattern is nested tuples, a condition or a measure a Python function of a `View`: the rows of one
partition, which of them a match has and what they are mapped to, and up to where one looks (RUNNING).

    ("var", "A")   ("seq", p, q ...)   ("alt", p, q ...)   ("permute", p, q ...)   ("excluded", p)   ("^",)   ("$",)
    ("repeat", p, least, most or None, reluctant)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

Row = Mapping[str, Any]
Pattern = tuple[Any, ...]
Taken = tuple[int, str, bool]  # the row, its variable, whether it is excluded


@dataclass(frozen=True)
class View:
    """A match as seen from one of its rows."""

    rows: Sequence[Row]  # of the partition
    taken: tuple[Taken, ...]  # of the match
    number: int
    upto: int  # how many of the taken rows are seen

    @property
    def final(self) -> View:
        return replace(self, upto=len(self.taken))

    def of(self, variables: str | None = None) -> list[int]:
        """The rows that are mapped to one of these variables (a text with a letter for each), or to any."""
        return [row for row, name, _ in self.taken[: self.upto] if variables is None or name in variables]

    def last(self, variables: str | None = None, back: int = 0) -> int | None:
        found = self.of(variables)
        return found[-1 - back] if len(found) > back else None

    def first(self, variables: str | None = None, on: int = 0) -> int | None:
        found = self.of(variables)
        return found[on] if len(found) > on else None

    def at(self, row: int | None, column: str, further: int = 0) -> Any:
        """A column at a row, or so many rows further; None where there is none."""
        if row is None or not 0 <= row + further < len(self.rows):
            return None
        return self.rows[row + further][column]

    def name(self, row: int | None, further: int = 0) -> str | None:
        """The variable that a row of the match is mapped to: in a measure also one behind the row that is looked at."""
        if row is None:
            return None
        return next((name for at, name, _ in self.taken if at == row + further), None)

    def values(self, column: str, variables: str | None = None) -> list[Any]:
        return [self.rows[row][column] for row in self.of(variables) if self.rows[row][column] is not None]


Asked = Callable[[View], Any]


@dataclass(frozen=True)
class Question:
    """A clause, in Python."""

    pattern: Pattern
    define: Mapping[str, Asked]
    measures: Mapping[str, Asked]
    shown: str = "one"  # one, show, omit, unmatched
    skip: tuple[str, str] = ("PAST LAST", "")  # NEXT, FIRST or LAST with the letters of variables
    within: Callable[[Row, Row], bool] | None = None  # whether a row may be in a match that starts with another


class SkipError(Exception):
    """A skip to a row that is not there, or to the first row of the match."""


def ways(
    ask: Question, rows: Sequence[Row], number: int, pattern: Pattern, at: int, taken: tuple[Taken, ...], hidden: bool
) -> Iterator[tuple[int, tuple[Taken, ...]]]:
    """Every way in which a pattern takes rows from `at` on, the preferred first: the row behind it, and what is taken by then."""
    kind = pattern[0]
    if kind == "var":
        if at < len(rows):
            longer = (*taken, (at, pattern[1], hidden))
            view = View(rows, longer, number, len(longer))
            near = ask.within is None or ask.within(rows[longer[0][0]], rows[at])
            if near and (pattern[1] not in ask.define or ask.define[pattern[1]](view) is True):
                yield at + 1, longer
    elif kind == "seq":
        if len(pattern) == 1:
            yield at, taken
        else:
            for middle, so_far in ways(ask, rows, number, pattern[1], at, taken, hidden):
                yield from ways(ask, rows, number, ("seq", *pattern[2:]), middle, so_far, hidden)
    elif kind == "alt":
        for part in pattern[1:]:
            yield from ways(ask, rows, number, part, at, taken, hidden)
    elif kind == "permute":
        for order in permutations(pattern[1:]):
            yield from ways(ask, rows, number, ("seq", *order), at, taken, hidden)
    elif kind == "excluded":
        yield from ways(ask, rows, number, pattern[1], at, taken, True)
    elif kind == "^":
        if at == 0:
            yield at, taken
    elif kind == "$":
        if at == len(rows):
            yield at, taken
    else:
        _, part, least, most, reluctant = pattern
        if most == 0:
            yield at, taken
            return

        def again() -> Iterator[tuple[int, tuple[Taken, ...]]]:
            for middle, so_far in ways(ask, rows, number, part, at, taken, hidden):
                if least == 0 and most is None and middle == at:
                    continue  # past what is required, a repetition takes a row
                rest = ("repeat", part, max(0, least - 1), None if most is None else most - 1, reluctant)
                yield from ways(ask, rows, number, rest, middle, so_far, hidden)

        if least > 0:
            yield from again()
        elif reluctant:
            yield at, taken
            yield from again()
        else:
            yield from again()
            yield at, taken


def recognize(ask: Question, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What the clause gives for the rows of one partition: dictionaries of measures, with the row that each is of as `#row`."""
    result: list[dict[str, Any]] = []
    at, number, seen = 0, 1, -1
    while at < len(rows):
        found = next(ways(ask, rows, number, ask.pattern, at, (), False), None)
        if found is None:
            if ask.shown == "unmatched" and at > seen:
                result.append({"#row": at, **dict.fromkeys(ask.measures)})
            at += 1
            continue
        _, taken = found
        result += _shown(ask, rows, at, taken, number)
        number += 1
        seen = max([seen, *(row for row, _, _ in taken)])
        at = _next(ask, at, taken)
    return result


def _shown(ask: Question, rows: Sequence[Row], at: int, taken: tuple[Taken, ...], number: int) -> list[dict[str, Any]]:
    def measured(row: int, upto: int) -> dict[str, Any]:
        view = View(rows, taken, number, upto)
        return {"#row": row, **{name: measure(view) for name, measure in ask.measures.items()}}

    if ask.shown == "one" or not taken:
        return [] if ask.shown == "omit" and not taken else [measured(at, len(taken))]
    return [measured(row, place + 1) for place, (row, _, hidden) in enumerate(taken) if not hidden]


def _next(ask: Question, at: int, taken: tuple[Taken, ...]) -> int:
    how, variables = ask.skip
    if not taken or how == "NEXT":
        return at + 1
    if how == "PAST LAST":
        return taken[-1][0] + 1
    targets = [row for row, name, _ in taken if name in variables]
    if not targets:
        raise SkipError("no target")
    to = targets[0] if how == "FIRST" else targets[-1]
    if to == at:
        raise SkipError("same row")
    return to


def write_pattern(pattern: Pattern) -> str:
    """The pattern as SQL."""
    kind = pattern[0]
    if kind == "var":
        return str(pattern[1])
    if kind in ("^", "$"):
        return str(kind)
    if kind == "seq":
        return f"({' '.join(map(write_pattern, pattern[1:]))})"
    if kind == "alt":
        return f"({' | '.join(map(write_pattern, pattern[1:]))})"
    if kind == "permute":
        return f"PERMUTE({', '.join(map(write_pattern, pattern[1:]))})"
    if kind == "excluded":
        return f"{{- {write_pattern(pattern[1])} -}}"
    _, part, least, most, reluctant = pattern
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    times = short or (f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}")
    return f"{write_pattern(part) if part[0] == 'var' else '(' + write_pattern(part) + ')'}{times}{'?' * reluctant}"
