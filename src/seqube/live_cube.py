"""A cube over a stream: what is counted of a pattern, at every multiple of a period, in the window that ends there.

    stream.cube("pairs", "SEQ(Computer a, Finance b) WITHIN 1 min", every="10 s")

is one query with AGG COUNT(*), GROUP BY the types at all positions, and EMIT EVERY (`counting`): its rows are the counts of the
finest cuboids, and go wherever rows of queries go. The counts of all cuboids that are finer in their types than the pattern are
sums of them, and that is what is here: a `LiveCube` holds the rows of the last moments, a `CountedCube` those of one moment, with
the moves of a `Cube`. A negated type stays as it is: with another one other matches would be cancelled, and no sum tells that.

Cost: that of the query, which goes on from step to step (`engine/aggregates/combinations`); a move costs the rows of a moment.
Invariant: the counts at a moment are those of a `Cube` over the events of the window that ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqube.cube import ConceptMove, Cube, Cuboids, TypeCounts, flat_query
from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.events.schema import TIME, is_moment
from seqube.events.times import iso_times
from seqube.extras import need
from seqube.language import parse
from seqube.language.names import group_name
from seqube.language.parameters import Params, fill, refuse_unknown
from seqube.language.tree import Aggregate, Attribute, Emit, Output, Query, Seq, Type, Window
from seqube.plan.needs import Plan
from seqube.plan.optimizer import plan_query

if TYPE_CHECKING:
    import altair

KEPT_MOMENTS = 360  # whose counts a cube remembers
MATCH_COUNT = "count"  # the column of them


def read_pattern(query: str | Query, params: Params | None = None) -> Query:
    """The pattern of a cube, or an error that says why it is none."""
    refuse_unknown([query], params or {})
    return flat_query(fill(parse(query) if isinstance(query, str) else query, params or {}))


def counting(pattern: Query, every: Window) -> Query:
    """What asks a stream for the counts of a pattern by the types at all positions, at every multiple of a period."""
    if every.counts_events or every.length <= 0:
        raise PlanError("every: the counts of a cube are due after a length of time\n  hint: every='10 s'")
    return replace(
        pattern,
        returns=(),
        group_by=_types(pattern),
        aggregates=(Output(Aggregate("COUNT", None), MATCH_COUNT),),
        emit=Emit("every", every),
    )


def _types(pattern: Query) -> tuple[Attribute, ...]:
    assert isinstance(pattern.pattern, Seq)
    return tuple(Attribute(part.variable or "", "type", sure=True) for part in pattern.pattern.parts if isinstance(part, Type))


class LiveCube:
    """The counts of a pattern over a running stream, as `Stream.cube` gives it: those of the last moments at which they were due.

    `now` is a cube like others: it can be drilled down, rolled up and pivoted. It stays as it is while the stream goes on.

    >>> concepts = sq.Hierarchy.from_dict({"Computer": ["DELL", "INTC"], "Finance": ["QQQ"]})
    >>> stream = sq.Stream(hierarchy=concepts)
    >>> cube = stream.cube("pairs", "SEQ(Computer a, Finance b) WITHIN 1 s", every="1 s")
    >>> trades = {"type": ["DELL", "INTC", "QQQ", "DELL"], "ts": [100, 200, 300, 1200]}
    >>> stream.push(pa.table(trades))["pairs"].to_pylist()
    [{'ts': 1000, 'a_type': 'DELL', 'b_type': 'QQQ', 'count': 1}, {'ts': 1000, 'a_type': 'INTC', 'b_type': 'QQQ', 'count': 1}]
    >>> cube.count, cube.now.drill_down(concept=[("Computer", "DELL", 1)]).count
    (2, 1)
    """

    def __init__(self, query: Query, hierarchy: Hierarchy | None, after: int | None = None) -> None:
        self.query, self.hierarchy = query, hierarchy
        self._after = after  # it counts what was due later
        self._groups = [group_name(key, number) for number, key in enumerate(_types(query), 1)]
        self._rows: pa.Table | None = None  # of the kept moments, in their order
        self._ticks = np.empty(0, np.int64)  # the time of each
        self._moments = np.empty(0, np.int64)

    def take(self, rows: pa.Table | None, moments: Any) -> None:
        """Rows that became due, and all moments at which some could have; in the order of time."""
        self._moments = np.concatenate([self._moments, np.asarray(moments, np.int64)])[-KEPT_MOMENTS:]
        if rows is not None:
            self._rows = rows if self._rows is None else pa.concat_tables([self._rows, rows], promote_options="permissive")
            self._ticks = np.concatenate([self._ticks, ticks_of(rows.column(TIME))])
        first = int(np.searchsorted(self._ticks, self._moments[0])) if len(self._moments) else 0
        if self._rows is not None and first:
            self._rows, self._ticks = self._rows.slice(first), self._ticks[first:]

    def facts(self) -> dict[str, Any]:
        """What it is beside its rows, as JSON can hold it."""
        return {"query": str(self.query), "moments": self.moments, "after": self._after}

    @classmethod
    def of(cls, facts: Mapping[str, Any], hierarchy: Hierarchy | None, rows: pa.Table | None) -> LiveCube:
        """The cube that facts and rows were written of; None: there were no rows yet."""
        cube = cls(read_pattern(facts["query"]), hierarchy, facts["after"])
        cube.take(rows if rows is not None and rows.num_columns else None, facts["moments"])
        return cube

    @property
    def last(self) -> int | None:
        """The moment at which counts were due last, or could have been when it was made; None: never yet."""
        return int(self._moments[-1]) if len(self._moments) else self._after

    @property
    def rows(self) -> pa.Table:
        """The counts of the finest cuboids at the moments that are kept: a row for each that has matches."""
        return pa.table({}) if self._rows is None else self._rows.combine_chunks()

    @property
    def moments(self) -> list[int]:
        """The moments at which counts were due, in ticks of the time column (microseconds where that has timestamps)."""
        found: list[int] = self._moments.tolist()
        return found

    @property
    def times(self) -> pa.ChunkedArray:
        """The same as times, where the time column has timestamps; that is known when the first row has come."""
        ticks = pa.chunked_array([self._moments])
        kind = None if self._rows is None else self._rows.column(TIME).type
        return ticks.cast(pa.timestamp("us", getattr(kind, "tz", None))) if kind is not None and is_moment(kind) else ticks

    @property
    def now(self) -> CountedCube:
        """The counts that were due last, as a cube; before there were any, all are 0."""
        return self.at(int(self._moments[-1]) if len(self._moments) else None)

    def at(self, moment: int | None) -> CountedCube:
        """The counts at one of `moments`, as a cube."""
        if moment is not None and moment not in self._moments:
            raise PlanError(f"no counts are kept of the moment {moment}\n  hint: one of cube.moments")
        found: list[tuple[tuple[str, ...], int]] = []
        if self._rows is not None and moment is not None:
            there = pa.array(np.flatnonzero(self._ticks == moment))
            *types, counts = (self._rows.column(name).take(there).to_pylist() for name in (*self._groups, MATCH_COUNT))
            found = list(zip(zip(*types, strict=True), counts, strict=True))
        return CountedCube(self.query, self.hierarchy, TypeCounts(found), moment)

    @property
    def count(self) -> int:
        """The number of matches in the last window that was due."""
        return self.now.count

    def over_time(self, cube: CountedCube | None = None) -> pa.Table:
        """The count of the pattern, or of a cuboid that moves led to, at every moment that is kept."""
        counts = np.zeros(len(self._moments), np.int64)
        if self._rows is not None:
            there = np.ones(len(self._ticks), np.bool_)
            for name, types in zip(self._groups, (cube or self.now).types, strict=True):
                if types is not None:
                    there &= np.asarray(pc.is_in(self._rows.column(name), pa.array(sorted(types), pa.string())))
            places = np.searchsorted(self._moments, self._ticks[there])
            np.add.at(counts, places, self._rows.column(MATCH_COUNT).to_numpy()[there])
        return pa.table({"moment": self._moments, MATCH_COUNT: counts})

    def plot(self, cube: CountedCube | None = None) -> altair.Chart:
        """That over time, as a line."""
        need("plot")
        import altair as alt

        times, counts = self.times, self.over_time(cube).column(MATCH_COUNT)
        are_moments = is_moment(times.type)
        shown = (iso_times(times) if are_moments else times).to_pylist()
        rows = [{"moment": time, MATCH_COUNT: count} for time, count in zip(shown, counts.to_pylist(), strict=True)]
        chart: altair.Chart = alt.Chart(alt.Data(values=rows)).mark_line()  # type: ignore[no-untyped-call]
        return chart.encode(x=f"moment:{'T' if are_moments else 'Q'}", y=f"{MATCH_COUNT}:Q")

    def __repr__(self) -> str:
        return f"{self.now!r} in the last window"


class CountedCube(Cube):
    """A cube of which the counts of the finest cuboids are known, and others are not: what is no sum of them is refused."""

    def __init__(self, query: Query, hierarchy: Hierarchy | None, counts: TypeCounts, moment: int | None) -> None:
        self._apex, self._finest, self.moment = query, counts, moment
        self._begin(query, hierarchy, None)

    def _plan(self, query: Query, hierarchy: Hierarchy | None) -> Plan:
        return plan_query(query, hierarchy)

    def _ask(self, queries: Mapping[str, Query]) -> Mapping[str, pa.Table]:
        raise PlanError(f"{self.pattern} is not counted by this cube\n  hint: ask for finer types of its own pattern")

    @property
    def _known_types(self) -> Collection[str]:
        return {name for types, _ in self._finest.rows for name in types}

    def table(self) -> Any:
        """Not kept: a stream that counts matches does not build them."""
        raise PlanError("a live cube counts matches, and builds none\n  hint: add the query itself to the stream")

    @property
    def types(self) -> list[frozenset[str] | None]:
        """The types that events have at every position that is not negated; None where they are all that the pattern has there."""
        found = self._sums()
        assert found is not None, "moves lead to cuboids that are sums"
        return found

    def _sums(self) -> list[frozenset[str] | None] | None:
        """Which of the finest cuboids this one is the sum of; None where it is none."""
        assert isinstance(self._apex.pattern, Seq)
        above, defined = self._apex.pattern.parts, {definition.name for definition in self._apex.definitions}
        if len(above) != len(self._parts) or len(self.query.where) != len(self._apex.where):
            return None
        found: list[frozenset[str] | None] = []
        for own, top in zip(self._parts, above, strict=True):
            if not isinstance(own, Type) or not isinstance(top, Type):
                if own != top:
                    return None
            elif own.name == top.name:
                found.append(None)
            elif self._covered(own.name) <= self._covered(top.name) and not defined & self._covered(own.name):
                found.append(self._covered(own.name))
            else:
                return None
        return found

    def _told(self) -> int:
        return self._finest.total(self.types)

    def _moved(self, query: Query, move: str) -> Self:
        cube = super()._moved(query, move)
        if cube._sums() is None:
            raise PlanError(
                f"{cube.pattern} is not counted by this cube, which counts {_written(self)} and finer types at its positions\n"
                "  hint: make another cube of the stream for it"
            )
        return cube

    def _concept_moves(self, finer: bool) -> Iterator[ConceptMove]:
        for move in super()._concept_moves(finer):
            if isinstance(self._parts[move[2] - 1], Type) and self._leads_on(move):
                yield move

    def _leads_on(self, move: ConceptMove) -> bool:
        try:
            self._retyped_cube(move)
        except PlanError:
            return False
        return True

    def _retyped_cube(self, move: ConceptMove) -> Self:
        old, new, position = move
        is_finer = new in self._below(old)
        return self._moved(self._retyped([(old, new, position)], finer=is_finer), "")

    def parents(self) -> Cuboids:
        """The cuboids one concept step coarser, as far as the pattern of the cube."""
        return Cuboids([self.roll_up(concept=[move]) for move in self._concept_moves(finer=False)])

    def _count(self, by_types: Any, cubes: Any = ()) -> None:
        """The counts by the types at some positions: sums, like all others."""
        order = [at for at, part in enumerate(self._parts, 1) if isinstance(part, Type)]
        for positions in by_types:
            places, sums = [order.index(position) for position in positions], dict[tuple[str, ...], int]()
            for found, count in self._finest.among(self.types):
                key = tuple(found[place] for place in places)
                sums[key] = sums.get(key, 0) + count
            self._tables[positions] = TypeCounts(sums.items())


def _written(cube: CountedCube) -> str:
    return CountedCube(cube._apex, cube.hierarchy, TypeCounts([]), None).pattern


def ticks_of(times: pa.ChunkedArray) -> Any:
    """Times as ticks: whole numbers as they are, timestamps in microseconds."""
    if is_moment(times.type):
        times = times.cast(pa.timestamp("us", getattr(times.type, "tz", None)))
    return times.cast(pa.int64()).to_numpy()
