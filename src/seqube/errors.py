"""What can go wrong, in the user's words.

Every error Seqube raises on purpose is a `SequbeError`. A `QueryError` is made of one or more `Problem`s: binding does not stop
at the first mistake, so one run shows all of them, each with its place in the text and one thing to do about it. What a text that
cannot be read may hide is said beside it.

    QueryError: unknown event type 'Withdrawl' (line 1, column 19)
      PATTERN SEQ(Card, Withdrawl, !Recharge)
                        ^^^^^^^^^
      hint: did you mean 'Withdrawal'?
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHOWN_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: 1-based line and column, and how many characters it covers."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where it is wrong, and one thing to do about it; `note`: what was not looked at because of it."""

    message: str
    at: Span | None = None
    hint: str | None = None
    note: str | None = None

    def show(self, source: str = "") -> str:
        """The message with its place, the offending line with a caret under it, the hint and the note."""
        if self.at is None:
            lines = [self.message]
        else:
            lines = [f"{self.message} (line {self.at.line}, column {self.at.column})", *self._caret(source)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.note:
            lines.append(f"  note: {self.note}")
        return "\n".join(lines)

    def _caret(self, source: str) -> list[str]:
        assert self.at is not None
        rows = source.split("\n")
        if not 1 <= self.at.line <= len(rows):
            return []
        row = rows[self.at.line - 1]
        # A very long line is cut around the place, so that the caret stays on the screen.
        before = max(0, self.at.column - 1 - 60)
        shown = row[before : before + 120].replace("\t", " ")
        start = self.at.column - 1 - before
        width = max(1, min(self.at.length, len(shown) - start))
        return [f"  {shown}", "  " + " " * start + "^" * width]


def show_problems(problems: Sequence[Problem], source: str = "") -> str:
    """All problems, one after the other; of very many the first ones, so that a message stays one."""
    shown = [problem.show(source) for problem in problems[:SHOWN_PROBLEMS]]
    more = len(problems) - len(shown)
    return "\n".join([*shown, *([f"... and {more:,} more problems"] if more else [])])


class SequbeError(Exception):
    """Base of every error that Seqube raises on purpose.

    >>> try:
    ...     sq.parse("SEQ(A a, B b)")
    ... except sq.SequbeError as error:
    ...     print(type(error).__name__)
    QueryError
    """


class QueryError(SequbeError):
    """The query text, or a rule, is wrong. `problems` holds every mistake found, `line` and `column` the place of the first.

    >>> sq.parse("SEQ(A a, B b, a.x = c.x) WITHIN 5 min")
    Traceback (most recent call last):
    seqube.errors.QueryError: there is no variable 'c' (line 1, column 21)
      SEQ(A a, B b, a.x = c.x) WITHIN 5 min
                          ^^^
      hint: known: a, b
    """

    def __init__(self, problems: Problem | Iterable[Problem], source: str = "") -> None:
        self.problems: Sequence[Problem] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.source = source
        super().__init__(show_problems(self.problems, source))

    @property
    def line(self) -> int | None:
        """The line of the first problem, from 1; None where it has no place."""
        return self.problems[0].at.line if self.problems[0].at else None

    @property
    def column(self) -> int | None:
        """The column of the first problem, from 1; None where it has no place."""
        return self.problems[0].at.column if self.problems[0].at else None

    @property
    def hint(self) -> str | None:
        """One thing to do about the first problem."""
        return self.problems[0].hint

    def __reduce__(self) -> tuple[type[QueryError], tuple[Sequence[Problem], str]]:
        return type(self), (self.problems, self.source)


class SchemaError(SequbeError):
    """The data does not have the columns or kinds of columns that were asked for.

    >>> sq.Events(pa.table({"kind": ["A"], "ts": [1]}))
    Traceback (most recent call last):
    seqube.errors.SchemaError: there is no type column 'type'; the columns are 'kind', 'ts'...
    """


class PlanError(SequbeError):
    """The query is right, but cannot be run in the way that was asked for.

    >>> sq.run("SEQ(A a, B b) WITHIN 5", pa.table({"type": ["A"], "ts": [1]}), strategy="prefix-tree")
    Traceback (most recent call last):
    seqube.errors.PlanError: strategy 'prefix-tree' does not apply to this query...
    """


class DataError(SequbeError):
    """A file or a table cannot be read, or what it holds cannot be used at all.

    >>> sq.Events("no-such-file.parquet")
    Traceback (most recent call last):
    seqube.errors.DataError: ...no-such-file.parquet...
    """


class LimitError(SequbeError):
    """The query was stopped because it would use more rows, memory or time than it may. `Limits` says how much that is.

    >>> sq.run("A WITHIN 5", pa.table({"type": ["A", "A"], "ts": [1, 2]}), limits=sq.Limits(max_matches=1))
    Traceback (most recent call last):
    seqube.errors.LimitError: the query was stopped after 1 rows: it has more than 1 rows (max_matches)...
    """


class ArgumentError(SequbeError, TypeError):
    """A function was called with something that it cannot take. The message names the argument and what it is for.

    >>> sq.run("SEQ(A a, B b) WITHIN 5", pa.table({"type": ["A"], "ts": [1]}), hierarchy={"C": ["A", "B"]})
    Traceback (most recent call last):
    seqube.errors.ArgumentError: run: hierarchy is a dict, where Hierarchy | None is expected
      hint: hierarchy: the concepts above the event types, a `Hierarchy`.
    """


class UnknownNameError(ArgumentError, KeyError):
    """A mapping of ours was asked for a name that it does not have; a `KeyError` too, because `get` and `in` go by that."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # that of a KeyError has quotes around it


class SequbeWarning(UserWarning):
    """Something that is not wrong, but is often not what was meant: a type that no event has, times of another unit.

    >>> result = sq.run("SEQ(Pay p, Refund r) WITHIN 5", pa.table({"type": ["Pay", "Return"], "ts": [1, 2]}))
    >>> result.notes
    ("no event is of the type 'Refund'; near it are 'Return'",)
    """


def warn(note: str) -> None:
    """Say a note where the caller of Seqube is, so that its own line is shown."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(note, SequbeWarning, stacklevel=depth)


def nearest(name: str, candidates: Iterable[str], likeness: float = 0.6) -> str | None:
    """The candidate that `name` was probably meant to be, or None; a difference in case alone always counts as near."""
    names = sorted(set(candidates))
    for candidate in names:
        if candidate.casefold() == name.casefold():
            return candidate
    close = difflib.get_close_matches(name, names, n=1, cutoff=likeness)
    return close[0] if close else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the nearest candidate; without a near one, what there is to choose from."""
    names = sorted(set(candidates))
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    if not names:
        return None
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"known: {shown}"
