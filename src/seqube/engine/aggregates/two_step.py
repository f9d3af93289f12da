"""Two steps: build the matches, then aggregate them. Right for every pattern; the baseline of the others.

A match counts at every moment from its end until it leaves the window, so it adds to a range of cells of its group. Counts and sums
of whole numbers are differences, summed up at the end; sums of doubles and extremes go into the nodes of a binary tree over the
cells that make up the range (at most two per level) and are handed down to the cells at the end: nothing is subtracted, so nothing
cancels.

With a trailing negation a match may be cancelled after its end (and, where the negated expression holds a negation itself, come
back), so the pattern is matched anew at every moment, over the events of its window; so is a run that may still go on. Which
matches SKIP leaves depends on all before them: it is asked of all matches that end less than a window before that moment, with
marks on the events that those before leave to begin none.

Cost: the matches, each with log(cells) for doubles and extremes; with a trailing negation, the matches of every window reported.

    Paper (A-Seq)                                       | Here
    sequence detection and construction (SDC)           | Evaluation
    aggregation (AGG)                                   | aggregate_matches
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.aggregates.aggregation import CELL_BYTES, Answer, Cells, Task, distinct, distinct_cells
from seqube.engine.aggregates.columns import exact_value, kind_of_value, values_of_matches
from seqube.engine.aggregates.lists_of_values import BEGAN, ENDED, TAKEN, in_lists, listed
from seqube.engine.aggregates.measured import WORD, Measured, whole_numbers
from seqube.engine.aggregates.measures import Collected, Count, Extreme, Sum, means
from seqube.engine.bindings import Bindings, Lists, shifted
from seqube.engine.evaluation import Evaluation
from seqube.engine.instances import Batch, Instances, minus
from seqube.engine.numbers import double
from seqube.engine.order import Settled
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.language.tree import Attribute, Value
from seqube.plan.aggregates import ABOUT, MATCHES, Measure
from seqube.plan.arguments import ADDED_UP, terms_of

_NONE = np.empty(0, np.int64)
FEW_CELLS = 1 << 14  # so few are all kept up, whether a match ends there or not


@dataclass(frozen=True, slots=True)
class _Piece:
    """Matches with the moments at which they count, from `begin` to before `end`; `fresh` where the match ends at `begin`."""

    rows: Bindings
    groups: Ints
    begin: Ints
    end: Ints
    fresh: Mask
    spans: tuple[Ints, Ints] | None = None  # when they end and start, where that is asked for

    @property
    def n_bytes(self) -> int:
        spans = self.spans or ()
        return sum(column.nbytes for column in (*self.rows.values(), self.groups, self.begin, self.end, self.fresh, *spans))


def aggregate_matches(task: Task) -> Answer:
    pieces, kept = _pieces(task), []
    if _is_kept(task):
        # Which cells there are, and how large values are, is known when all matches are.
        for piece in pieces:
            task.batch.budget.hold(piece.n_bytes)
            kept.append(piece)
        pieces = iter(kept)
    cells = _cells(task, kept)
    built = {argument: _built(task, argument, kept) for argument in task.of_matches}
    tallies = {measure: _Tally(task, measure, len(cells), built) for measure in task.plan.measures}
    place = _Places(cells, task.groups.size, len(task.moments))
    n_matches = 0
    for piece in pieces:
        task.batch.budget.check()
        begin, end = place(piece.groups, piece.begin), place(piece.groups, piece.end)
        inside = np.flatnonzero(begin < end)
        everything = len(inside) == len(begin)
        rows = piece.rows if everything else {name: column[inside] for name, column in piece.rows.items()}
        spans = piece.spans if everything or piece.spans is None else (piece.spans[0][inside], piece.spans[1][inside])
        for tally in tallies.values():
            tally.add(*((begin, end) if everything else (begin[inside], end[inside])), rows, n_matches + inside, spans)
        n_matches += len(begin)
    measures = {measure: tally.total(tallies) for measure, tally in tallies.items()}
    if not _is_any_cell(task):
        return Answer(cells, measures)
    found = np.flatnonzero(measures[MATCHES if MATCHES in measures else ABOUT])
    taken = {measure: values.take(pa.array(found)) for measure, values in measures.items()}
    return Answer(Cells(cells.groups[found], cells.moments[found]), taken)


def _is_kept(task: Task) -> bool:
    """Whether all matches are kept before they are added up."""
    return not (task.is_given or _is_any_cell(task)) or bool(task.of_matches)


def _is_any_cell(task: Task) -> bool:
    """Whether matches are added to every cell that there may be, as those are few, and those where none ends are left out then."""
    return not task.is_given and task.plan.emit.counts_once and task.groups.size * len(task.moments) <= FEW_CELLS


def _built(task: Task, argument: Value, pieces: list[_Piece]) -> pa.Array:
    """A value of every match, piece by piece."""
    asked = {measure.function for measure in task.plan.measures if measure.argument == argument}
    value = exact_value if terms_of(argument) is not None and asked <= {*ADDED_UP} else values_of_matches
    values = [value(argument, task.batch.events, piece.rows, len(piece.begin)) for piece in pieces]
    return pa.concat_arrays(values) if values else pa.nulls(0, kind_of_value(argument, task.batch.events))


def _cells(task: Task, pieces: list[_Piece]) -> Cells:
    if task.is_given:
        return task.given
    if _is_any_cell(task):
        return Cells(*np.divmod(np.arange(task.groups.size * len(task.moments)), max(len(task.moments), 1)))
    none = np.empty(0, np.int64)
    if task.plan.report == "present":
        spans = [np.stack([piece.groups, piece.begin, piece.end], axis=1) for piece in pieces]
        groups, begin, end = np.unique(np.concatenate([none.reshape(0, 3), *spans]), axis=0).T
        counts = end - begin
        task.batch.budget.need(int(counts.sum()) * CELL_BYTES)
        moments = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - begin, counts)
        return distinct_cells(np.repeat(groups, counts), moments)
    groups = np.concatenate([none, *(piece.groups[piece.fresh] for piece in pieces)])
    return distinct_cells(groups, np.concatenate([none, *(piece.begin[piece.fresh] for piece in pieces)]))


class _Places:
    """Where cells are: the first cell of a group at or after a moment."""

    def __init__(self, cells: Cells, n_groups: int, n_moments: int) -> None:
        self._n_groups, self._n_moments = n_groups, n_moments
        self._is_all = len(cells) == n_groups * n_moments
        if self._is_all:
            return
        self._groups = distinct(cells.groups)
        self._width = n_moments + 1
        self._keys = np.searchsorted(self._groups, cells.groups) * self._width + cells.moments

    def __call__(self, groups: Ints, moments: Ints) -> Ints:
        if self._is_all:
            return moments if self._n_groups == 1 else groups * self._n_moments + moments
        number = np.searchsorted(self._groups, groups)
        known = number < len(self._groups)
        known[known] &= self._groups[number[known]] == groups[known]
        return np.where(known, np.searchsorted(self._keys, number * self._width + moments), 0)


# ---------------------------------------------------------------- matches and the moments they count at


def _pieces(task: Task) -> Iterator[_Piece]:
    plan, batch = task.plan, task.batch
    once = plan.emit.counts_once
    if not once and plan.matches.waits:
        yield from _anew(task)
        return
    whole = once and plan.matches.waits
    after = LOWEST if not once or whole else task.after
    times, untils = batch.events.times, task.untils
    for piece in _matches(task, batch, after, HIGHEST if whole else task.upto):
        if once:
            if plan.matches.skip is not None and not whole:
                piece = piece.select(times[piece.last_rows] > after)
            if whole:
                known = task.known_at[piece.last_rows if plan.matches.waits_from_end else piece.first_rows]
                piece = piece.select((known > task.after) & ((known <= task.upto) | task.final))
            begin = np.zeros(len(piece), np.int64)
            if plan.emit.when == "per":
                begin = np.searchsorted(task.moments, task.bucket_starts[piece.last_rows])
            end, fresh = begin + 1, np.ones(len(piece), np.bool_)
        else:
            ends = times[piece.last_rows]
            begin = np.searchsorted(task.moments, ends)
            end = np.searchsorted(task.moments, untils[piece.first_rows])
            fresh = _at(task.moments, begin) == ends
        spans = (times[piece.last_rows], times[piece.first_rows]) if task.asks_for_order else None
        yield _piece(task, _Piece(piece.rows, _NONE, begin, end, fresh, spans))


def _matches(task: Task, batch: Batch, after: int = LOWEST, upto: int = HIGHEST) -> Iterator[Instances]:
    """The matches that end in (after, upto], those that SKIP leaves."""
    plan = task.plan.matches
    if plan.skip is None:
        return Evaluation(plan, batch, after, upto).matches()
    pieces = Evaluation(plan, batch, LOWEST, upto).matches()  # those before leave out others
    return iter([task.settled.remaining(plan, pieces, batch.events, batch.budget)])


def settle_matches(task: Task, ends: Mask) -> Settled:
    """What is known of the matches that SKIP takes when those that end at these events are over."""
    plan, batch = task.plan.matches, task.batch
    new = ends & ~task.settled.over(len(ends)).ends
    upto = int(batch.events.times.max(initial=LOWEST, where=new))
    pieces = Evaluation(plan, batch, LOWEST, upto).matches() if new.any() else iter(())
    return task.settled.settle(plan, pieces, batch.events, ends, batch.budget)


def _anew(task: Task) -> Iterator[_Piece]:
    """The matches as they stand at every moment: a trailing negation, or a run that may go on, has seen nothing later."""
    batch, times, untils = task.batch, task.batch.events.times, task.untils
    for number, moment in enumerate(task.moments.tolist()):
        stop = int(np.searchsorted(times, moment, "right"))
        start = 0
        if not batch.counts_events and task.plan.matches.skip is None:
            start = int(np.searchsorted(times, minus(np.array([moment]), task.needs.back)[0], "right"))
        if start == stop:
            continue
        cut = slice(start, stop)
        partitions, positions, ranks = (
            None if each is None else each[cut] for each in (batch.partitions, batch.positions, batch.ranks)
        )
        events = batch.events.slice(start, stop)
        clocks = batch.clocks[cut] if batch.counts_events else events.times
        for piece in _matches(task, Batch(events, batch.window, clocks, partitions, batch.budget, positions, ranks)):
            piece = piece.select(untils[piece.first_rows + start] > moment)
            rows = {name: shifted(column, start) for name, column in piece.rows.items()}
            begin = np.full(len(piece), number)
            ends = times[piece.last_rows + start]
            spans = (ends, times[piece.first_rows + start]) if task.asks_for_order else None
            yield _piece(task, _Piece(rows, _NONE, begin, begin + 1, ends == moment, spans))


def _piece(task: Task, piece: _Piece) -> _Piece:
    """The matches that count anywhere, with their groups."""
    rows, groups = piece.rows, task.groups.codes(piece.rows, len(piece.begin))
    counts = piece.begin < piece.end
    if not counts.all():
        rows = {name: column[counts] for name, column in rows.items()}
        spans = None if piece.spans is None else (piece.spans[0][counts], piece.spans[1][counts])
        return _Piece(rows, groups[counts], piece.begin[counts], piece.end[counts], piece.fresh[counts], spans)
    if _is_kept(task):
        rows = {name: column.copy() for name, column in rows.items()}  # a piece is overwritten by the next one
    return replace(piece, rows=rows, groups=groups)


def _at(moments: Ints, positions: Ints) -> Ints:
    if not len(moments):
        return np.full(len(positions), LOWEST)
    return np.where(positions < len(moments), moments[np.minimum(positions, len(moments) - 1)], LOWEST)


# ---------------------------------------------------------------- adding to ranges


class _Tally:
    """One measure over ranges of cells."""

    def __init__(self, task: Task, measure: Measure, size: int, built: Mapping[Value, pa.Array]) -> None:
        self._argument, row = measure.argument, means(measure.function)
        self._column: Measured | None = None
        self._valid: Mask | None = None
        self._parts: list[_Sums] | list[_Smallest] | list[_Listed]
        self._total: Callable[..., pa.Array]
        if isinstance(measure.argument, Attribute):
            values, name = task.values(measure.argument), measure.argument.name
        elif measure.argument is not None:
            values, name = built[measure.argument], ""
        if measure.argument is not None:
            self._column = None if isinstance(row, Collected) else Measured.of(values, name)
            self._valid = np.asarray(listed(values).is_valid()) if self._column is None else self._column.valid
        match row:
            case Count(is_exact=is_exact):
                self._parts = [_Sums(None, size)]
                self._total = lambda counts: counts if is_exact else double(counts)
            case Sum():
                assert self._column is not None
                weights = row.weights(self._column)
                self._parts = [_Sums(part, size) for part in weights.parts]
                self._total = weights.total
            case Extreme(sign=sign):
                assert self._column is not None
                numbers, stand_for = self._column.ordered(sign)
                self._parts = [_Smallest(numbers, size)]
                self._total = stand_for
            case Collected(in_order=in_order):
                self._parts = [_Listed(listed(values), size, in_order, task)]
                self._total = lambda lists: lists
            case _:
                assert_never(row)
        self._needs_count = isinstance(row, Sum) and "COUNT" in row.needs

    def add(self, begin: Ints, end: Ints, rows: Bindings, matches: Ints, spans: tuple[Ints, Ints] | None) -> None:
        """Add matches, whose rows and numbers these are; and when they end and start, where that is asked for."""
        bound = None
        if self._valid is not None:
            column = rows[self._argument.variable or ""] if isinstance(self._argument, Attribute) else matches
            if isinstance(column, Lists):  # over every event of every list
                begin, end, bound = np.repeat(begin, column.counts), np.repeat(end, column.counts), column.rows
                spans = spans and (np.repeat(spans[0], column.counts), np.repeat(spans[1], column.counts))
            else:
                bound = column
            valued = bound >= 0
            valued[valued] &= self._valid[bound[valued]]
            if not valued.all():
                begin, end, bound = begin[valued], end[valued], bound[valued]
                spans = spans and (spans[0][valued], spans[1][valued])
        for part in self._parts:
            part.add(begin, end, bound, spans)

    def total(self, tallies: dict[Measure, _Tally]) -> pa.Array:
        counts = [tallies[Measure("COUNT", self._argument)].total(tallies)] if self._needs_count else []
        return self._total(*counts, *(part.total() for part in self._parts))


class _Sums:
    """What rows weigh, or (None) how many there are, added to ranges of cells: whole numbers exactly, word by word."""

    def __init__(self, weights: Measured | None, size: int) -> None:
        self._weights = weights
        self._exact = weights is None or weights.is_whole
        if self._exact:
            n_words = 1 if weights is None else len(weights.words)
            self._differences = np.zeros((n_words, size + 1), np.int64)
        else:
            self._tree = _Tree(size, np.add)

    def add(self, begin: Ints, end: Ints, bound: Ints | None, _: tuple[Ints, Ints] | None) -> None:
        if self._weights is None:
            self._shift(0, begin, end, 1)
        elif self._exact:
            for k, word in enumerate(self._weights.words):
                self._shift(k, begin, end, word[bound])
        else:
            self._tree.add(begin, end, self._weights.numbers[bound])

    def _shift(self, word: int, begin: Ints, end: Ints, numbers: Any) -> None:
        np.add.at(self._differences[word], begin, numbers)
        np.subtract.at(self._differences[word], end, numbers)

    def total(self) -> pa.Array:
        if not self._exact:
            return pa.array(self._tree.leaves())
        low, *more = np.cumsum(self._differences[:, :-1], axis=1)
        if not more:
            return pa.array(low)
        if len(more) == 1 and (np.abs(more[0]) < 1 << 30).all() and (low < 1 << 62).all():
            return whole_numbers((more[0] << WORD) + low)
        words = zip(*(word.tolist() for word in (low, *more)), strict=True)
        return whole_numbers([sum(word << (WORD * k) for k, word in enumerate(number)) for number in words])


class _Smallest:
    """The smallest number of rows over ranges of cells."""

    def __init__(self, numbers: npt.NDArray[np.float64], size: int) -> None:
        self._numbers = numbers
        self._tree = _Tree(size, np.minimum)

    def add(self, begin: Ints, end: Ints, bound: Ints | None, _: tuple[Ints, Ints] | None) -> None:
        self._tree.add(begin, end, self._numbers[bound])

    def total(self) -> npt.NDArray[np.float64]:
        return self._tree.leaves()


class _Listed:
    """The values of rows over ranges of cells, as lists; in order, each beside when its match ended and began."""

    def __init__(self, values: pa.Array, size: int, in_order: bool, task: Task) -> None:
        self._values, self._size, self._in_order, self._budget = values, size, in_order, task.batch.budget
        self._found: list[tuple[Ints, ...]] = []  # cells, rows and, in order, ends and starts

    def add(self, begin: Ints, end: Ints, bound: Ints | None, spans: tuple[Ints, Ints] | None) -> None:
        assert bound is not None
        counts = end - begin
        self._budget.hold(int(counts.sum()) * CELL_BYTES)
        cells = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - begin, counts)
        columns = (bound, *(spans or ())) if self._in_order else (bound,)
        self._found.append((cells, *(np.repeat(column, counts) for column in columns)))

    def total(self) -> pa.Array:
        none = tuple(np.empty(0, np.int64) for _ in range(4 if self._in_order else 2))
        cells, rows, *spans = (np.concatenate(parts) for parts in zip(none, *self._found, strict=True))
        values = self._values.take(pa.array(rows))
        if self._in_order:
            values = pa.StructArray.from_arrays([*map(pa.array, spans), values], names=[ENDED, BEGAN, TAKEN])
        return in_lists(cells, values, self._size)


class _Tree:
    """A binary tree over cells: a range is a few nodes, each of which covers all cells below it."""

    def __init__(self, size: int, join: Any) -> None:
        self._size = size
        self._width = 1 << max(size - 1, 0).bit_length()
        self._join = join
        self._nodes: npt.NDArray[np.float64] = np.full(2 * self._width, 0.0 if join is np.add else np.inf)

    @np.errstate(invalid="ignore")  # infinities of both signs add up to no number, as they should
    def add(self, begin: Ints, end: Ints, values: Any) -> None:
        low, high = begin + self._width, end + self._width
        values = np.asarray(values, np.float64)
        while len(low):
            left, right = (low & 1) == 1, (high & 1) == 1
            self._join.at(self._nodes, low[left], values[left])
            self._join.at(self._nodes, high[right] - 1, values[right])
            low, high = (low + 1) >> 1, high >> 1
            open_ = low < high
            low, high, values = low[open_], high[open_], values[open_]

    @np.errstate(invalid="ignore")
    def leaves(self) -> npt.NDArray[np.float64]:
        level = 1
        while level < self._width:
            inner = np.repeat(self._nodes[level : 2 * level], 2)
            self._nodes[2 * level : 4 * level] = self._join(self._nodes[2 * level : 4 * level], inner)
            level *= 2
        return self._nodes[self._width : self._width + self._size]
