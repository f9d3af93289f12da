"""Looking at one pattern from coarse to fine: a `Cube` is a query over events, and its moves lead to others.

    cube = sq.Cube(events, "SEQ(Computer a, Finance b) WITHIN 1 s", hierarchy=h)
    cube.drill_down(concept=[("Computer", "DELL", 1)])     SEQ(DELL a, Finance b)
    cube.drill_down(pattern=[("!MSFT", 2)])                SEQ(Computer a, !MSFT, Finance b)

Drilling down leads to a finer query, rolling up to a coarser one: a positive type to one below (above) it, a negated type the
other way round, a component put in (taken out). Positions are 1-based and count negated components; where components are put in
they are positions in the finer query, so that taking them out again is the same list. A move that is none is a PlanError that
names those that are. Predicates that name a component go with it.

Cost: making a move costs nothing. `count` is counted without building matches where the pattern allows it, once per cube, and what
was counted once is not counted again: a pivot, and the children of a cube, are one count by the types at two positions, from which
the counts of finer concepts at these positions are added up (of negated types they cannot be: those are counted, as one workload).
Invariant: how a count was come by does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any, Self, overload

import pyarrow as pa

from seqube.arguments import checked
from seqube.errors import PlanError, did_you_mean
from seqube.events import Events, Hierarchy
from seqube.extras import need
from seqube.language import parse
from seqube.language.mentions import quantifiers, variables_of
from seqube.language.parameters import Params, fill, refuse_unknown
from seqube.language.tree import (
    Aggregate,
    Attribute,
    Emit,
    Not,
    Output,
    Part,
    Predicate,
    Query,
    Seq,
    Type,
    renaming,
    transform_query,
)
from seqube.language.writer import quote, write
from seqube.plan.aggregates import AggregatePlan, chain_of, free_slots
from seqube.plan.needs import Plan
from seqube.plan.rewrite import flatten_pattern
from seqube.query import prepare, run

if TYPE_CHECKING:
    import altair
    import pandas as pd

ConceptMove = tuple[str, str, int]  # from, to, position
PatternMove = tuple[str, int]  # type ("!" before it where it is negated), position


class TypeCounts:
    """How many matches have which types at some positions."""

    def __init__(self, rows: Iterable[tuple[tuple[str, ...], int]]) -> None:
        self.rows = list(rows)
        self._sums: dict[int, Counter[str]] = {}  # by the types at one position, as every child asks

    def among(self, asked: Sequence[Collection[str] | None]) -> Iterator[tuple[tuple[str, ...], int]]:
        """Those whose types are among these (None: any)."""
        for types, count in self.rows:
            if all(wanted is None or name in wanted for name, wanted in zip(types, asked, strict=True)):
                yield types, count

    def total(self, asked: Sequence[Collection[str] | None]) -> int:
        """How many matches have types among these."""
        limited = [(place, wanted) for place, wanted in enumerate(asked) if wanted is not None]
        if len(limited) != 1:
            return sum(count for _, count in self.among(asked))
        ((place, wanted),) = limited
        if place not in self._sums:
            self._sums[place] = Counter()
            for types, count in self.rows:
                self._sums[place][types[place]] += count
        return sum(self._sums[place][name] for name in wanted)


class Cube:
    """A flat SEQ over events, and the queries around it. Immutable: moves return new cubes over the same events.

    - `events`: as for `run`, with `type`, `time` and `unit`.
    - `query`: a text or a `Query`, of one SEQ without nesting.
    - `hierarchy`: the concepts that `roll_up` and `drill_down` walk along.
    - `params`: values for the parameters of the query (`:limit`), by name.
    - `threads`: how many may count at once, as for `run`.

    >>> concepts = sq.Hierarchy.from_dict({"Computer": ["DELL", "INTC"], "Finance": ["QQQ"]})
    >>> trades = pa.table({"type": ["DELL", "INTC", "QQQ"], "ts": [1, 2, 3]})
    >>> cube = sq.Cube(trades, "SEQ(Computer a, Finance b) WITHIN 1 s", concepts)
    >>> cube.count, cube.drill_down(concept=[("Computer", "DELL", 1)]).count
    (2, 1)
    """

    @checked
    def __init__(
        self,
        events: Any,
        query: str | Query,
        hierarchy: Hierarchy | None = None,
        *,
        type: str | None = "type",
        time: str = "ts",
        unit: str = "ms",
        params: Params | None = None,
        threads: int | None = None,
    ) -> None:
        self.events = events if isinstance(events, Events) else Events(events, type=type, time=time, unit=unit, threads=threads)
        self._threads = threads
        self._begin(query, hierarchy, params)

    def _begin(self, query: str | Query, hierarchy: Hierarchy | None, params: Params | None) -> None:
        refuse_unknown([query], params or {})
        self.query = flat_query(fill(parse(query) if isinstance(query, str) else query, params or {}))
        self.hierarchy = _with_definitions(hierarchy, self.query)
        self.move = ""  # what led here
        self._counts: dict[Query, int] = {}  # of all cubes that moves lead to from each other
        self._tables: dict[tuple[int, ...], TypeCounts] = {}  # by the types at some positions
        self._coarser: tuple[tuple[Self, Mapping[int, frozenset[str]]], ...] = ()  # and the types that this has of theirs
        self._first: Callable[[], object] | None = None  # what it is worth doing before this one is counted
        self._plan(self.query, hierarchy)  # so that a wrong query is told at once

    def _moved(self, query: Query, move: str) -> Self:
        cube = copy(self)
        cube.__dict__.pop("count", None)
        cube.query, cube.move, cube._tables, cube._coarser, cube._first = query, move, {}, (), None
        return cube

    # ------------------------------------------------------------ where the events are

    def _plan(self, query: Query, hierarchy: Hierarchy | None) -> Plan:
        """The plan of a query over the events, or an error that says what is wrong with it."""
        return prepare(query, self.events, hierarchy)

    def _ask(self, queries: Mapping[str, Query]) -> Mapping[str, pa.Table]:
        """The rows of queries by name, as one workload."""
        found = run(queries, self.events, hierarchy=self.hierarchy, threads=self._threads)
        return {name: result.table for name, result in found.items()}

    @property
    def _known_types(self) -> Collection[str]:
        return self.events.type_names

    def table(self) -> Any:
        """The matches themselves, as a PyArrow table."""
        return run(self.query, self.events, hierarchy=self.hierarchy, threads=self._threads).table

    # ------------------------------------------------------------ what is there

    @cached_property
    def count(self) -> int:
        """The number of matches."""
        if self._first is not None:
            self._first()
        if self.query not in self._counts:
            told = self._told()
            self._counts[self.query] = told if told is not None else _total(self._ask({"count": self._counting()})["count"])
        return self._counts[self.query]

    def _told(self) -> int | None:
        """The count, where it is a sum of what was counted before."""
        known: tuple[tuple[Cube, Mapping[int, frozenset[str]]], ...] = ((self, {}), *self._coarser)
        for cube, types in known:
            for positions, counts in cube._tables.items():
                if types.keys() <= set(positions):
                    asked = [types.get(position) for position in positions]
                    return counts.total(asked)
        return None

    def _counting(self, positions: tuple[int, ...] = ()) -> Query:
        """What asks how many matches there are, by the types at some positions."""
        variables = [_type(self._parts[position - 1]).variable or "" for position in positions]
        return replace(
            self.query,
            returns=(),
            group_by=tuple(Attribute(variable, "type", sure=True) for variable in variables),
            aggregates=(Output(Aggregate("COUNT", None), "count"),),
            emit=Emit("total"),
        )

    def _count(self, by_types: Iterable[tuple[int, ...]], cubes: Sequence[Self] = ()) -> None:
        """Count by the types at some positions, and other cubes, as one workload; what is known is not counted again."""
        grouped = {f"types {positions}": positions for positions in by_types if positions not in self._tables}
        others = {f"cube {number}": cube for number, cube in enumerate(cubes) if cube.query not in cube._counts}
        asked = {name: self._counting(positions) for name, positions in grouped.items()}
        asked |= {name: cube._counting() for name, cube in others.items()}
        found = self._ask(asked) if asked else {}
        for name, positions in grouped.items():
            *types, counts = found[name].columns
            keys = zip(*(column.to_pylist() for column in types), strict=True)
            self._tables[positions] = TypeCounts(zip(keys, counts.to_pylist(), strict=True))
        for name, cube in others.items():
            cube._counts[cube.query] = _total(found[name])

    @property
    def pattern(self) -> str:
        """The SEQ that is counted."""
        return _pattern(self._parts)

    @property
    def components(self) -> tuple[tuple[str, bool], ...]:
        """The types from left to right, each with whether it is negated."""
        return tuple((_type(part).name, isinstance(part, Not)) for part in self._parts)

    @property
    def _parts(self) -> tuple[Part, ...]:
        return _seq(self.query).parts

    def __repr__(self) -> str:
        return f"{self.pattern}: {self.count:,} matches"

    def _repr_html_(self) -> str:
        head = f"<tr><th>{escape(self.pattern)}</th><th>{self.count:,}</th></tr>"
        return f"<table><thead>{head}</thead>{self.children()._html_rows()}</table>"

    def plot(self) -> altair.Chart:
        """The counts of the cuboids one step away, coarser and finer, beside this one's."""
        return Cuboids([*self.parents(), self, *self.children()]).plot()

    # ------------------------------------------------------------ moves

    @checked
    def drill_down(self, concept: Sequence[ConceptMove] = (), pattern: Sequence[PatternMove] = ()) -> Self:
        """The finer query: types replaced by finer ones (coarser where negated), then components put in."""
        query = self._retyped(concept, finer=True)
        for name, position in sorted(pattern, key=lambda move: move[1]):
            query = self._inserted(query, name, position)
        cube = self._moved(query, _written(concept, pattern, "put in"))
        if not pattern and all(self._is_by_type(move) for move in concept):
            types = {position: self._covered(new) for _, new, position in concept}
            cube._coarser = tuple((above, {**had, **types}) for above, had in ((self, {}), *self._coarser))
        return cube

    def _is_by_type(self, move: ConceptMove) -> bool:
        """Whether the matches of the finer query are those whose event at this position is of certain types."""
        _, new, position = move
        defined = {definition.name for definition in self.query.definitions}
        return isinstance(self._parts[position - 1], Type) and not defined & self._covered(new)

    def _covered(self, name: str) -> frozenset[str]:
        return self.hierarchy.covers(name) if self.hierarchy is not None else frozenset({name})

    @checked
    def roll_up(self, concept: Sequence[ConceptMove] = (), pattern: Sequence[PatternMove] = ()) -> Self:
        """The coarser query: types replaced by coarser ones (finer where negated), then components taken out."""
        query = self._retyped(concept, finer=False)
        return self._moved(self._removed(query, pattern), _written(concept, pattern, "take out"))

    @checked
    def slice(self, predicate: str) -> Self:
        """The same pattern where a predicate over its variables holds as well: `cube.slice("a.price > 10")`."""
        pattern, *rest = write(replace(self.query, where=(), returns=())).split("\n")
        asked = parse("\n".join([pattern, f"WHERE {predicate}", *rest]))
        query = replace(self.query, where=self.query.where + asked.where)
        self._plan(query, self.hierarchy)
        return self._moved(query, f"where {predicate}")

    @checked
    def children(self, insert: Sequence[str] = ()) -> Cuboids:
        """The cuboids one concept step finer, and those with one of the types in `insert` put in somewhere."""
        moves = list(self._concept_moves(finer=True))
        cubes = [self.drill_down(concept=[move]) for move in moves]
        by_types = self._counts_by_types
        told = {number for number, move in enumerate(moves) if by_types and self._is_by_type(move)}
        grouped = sorted({moves[number][2] for number in told})
        pairs = [tuple(sorted({grouped[at], grouped[-1 - at]})) for at in range((len(grouped) + 1) // 2)]
        others = [cube for number, cube in enumerate(cubes) if number not in told]
        positions = range(1, len(self._parts) + 2)
        inserted = [self.drill_down(pattern=[(name, at)]) for name in insert for at in positions]
        return self._together([*cubes, *inserted], pairs, [*others, *inserted])

    def _together(self, cubes: Sequence[Self], by_types: Sequence[tuple[int, ...]], others: Sequence[Self]) -> Cuboids:
        """Some cubes that are counted by one workload, when the first of them is asked for."""
        for cube in cubes:
            cube._first = partial(self._count, by_types, others)
        return Cuboids(cubes)

    @property
    def _counts_by_types(self) -> bool:
        """Whether counting by the types at two positions costs about what counting costs."""
        plan = self._plan(self._counting(), self.hierarchy)
        assert isinstance(plan, AggregatePlan)
        chain = chain_of(plan)
        return isinstance(chain, str) or free_slots(plan, chain) is not None

    def parents(self) -> Cuboids:
        """The cuboids one step coarser: by concept, and with one component taken out."""
        moves = [self.roll_up(concept=[move]) for move in self._concept_moves(finer=False)]
        n_positive = sum(isinstance(part, Type) for part in self._parts)
        removable = [(_plain(part), at) for at, part in enumerate(self._parts, 1) if isinstance(part, Not) or n_positive > 1]
        cubes = [*moves, *(self.roll_up(pattern=[move]) for move in removable)]
        return self._together(cubes, (), cubes)

    @checked
    def pivot(self, rows: int | tuple[int, int], columns: int | tuple[int, int]) -> pd.DataFrame:
        """Counts by the types at two positions: those one step below or, with `(position, n)`, n steps below."""
        need("pandas")
        import pandas as pd

        sides = [self._side(rows), self._side(columns)]
        if sides[0][0] == sides[1][0]:
            raise PlanError(f"rows and columns are both {sides[0][0].name}\n  hint: take two different positions")
        positions = [side if isinstance(side, int) else side[0] for side in (rows, columns)]
        order = sorted(positions)
        self._count([tuple(order)])
        places = [{below: at for at, covered in enumerate(groups.values()) for below in covered} for _, groups in sides]
        cells = [[0] * len(sides[1][1]) for _ in sides[0][1]]
        for types, count in self._tables[tuple(order)].rows:
            row, column = (place.get(types[order.index(position)]) for place, position in zip(places, positions, strict=True))
            if row is not None and column is not None:
                cells[row][column] += count
        index, names = (pd.Index(list(groups), name=part.name) for part, groups in sides)
        return pd.DataFrame(cells, index=index, columns=names)

    # ------------------------------------------------------------ making moves

    def _concept_moves(self, finer: bool) -> Iterator[ConceptMove]:
        for at, part in enumerate(self._parts, 1):
            name = _type(part).name
            if self.hierarchy is None or name not in self.hierarchy:
                continue
            if finer == isinstance(part, Not):
                above = self.hierarchy.parent(name)
                targets: tuple[str, ...] = () if above is None else (above,)
            else:
                targets = self.hierarchy.children(name)
            yield from ((name, target, at) for target in targets)

    def _retyped(self, moves: Sequence[ConceptMove], finer: bool) -> Query:
        query = self.query
        for old, new, position in moves:
            part = _part(query, old, position)
            down = finer != isinstance(part, Not)
            name = _type(part).name
            valid = self._below(name) if down else self._above(name)
            if new not in valid:
                side = "below" if down else "above"
                why = f" ({'drilling down' if finer else 'rolling up'} on a negated type goes the other way)" * isinstance(
                    part, Not
                )
                listed = f"{side} {name} there is {', '.join(valid)}" if valid else f"nothing is {side} {name} in the hierarchy"
                raise PlanError(f"{new} is not {side} {name}{why}\n  hint: {listed}")
            variable = _type(part).variable or name
            if variable == name:  # nobody chose this variable: it goes with the type
                query = transform_query(query, renaming({variable: self._fresh(query, new)}))
            parts = list(_seq(query).parts)
            inner = replace(_type(parts[position - 1]), name=new)
            parts[position - 1] = Not(inner) if isinstance(part, Not) else inner
            query = _with(query, parts)
        return query

    def _below(self, name: str) -> tuple[str, ...]:
        return self.hierarchy.descendants(name) if self.hierarchy and name in self.hierarchy else ()

    def _above(self, name: str) -> tuple[str, ...]:
        return self.hierarchy.ancestors(name) if self.hierarchy and name in self.hierarchy else ()

    def _inserted(self, query: Query, text: str, position: int) -> Query:
        name = text.removeprefix("!").strip()
        known = {*self._known_types, *(self.hierarchy or ())}
        if name not in known:
            raise PlanError(f"there is no type {name!r} to put in\n  hint: {did_you_mean(name, known)}")
        parts = list(_seq(query).parts)
        if not 1 <= position <= len(parts) + 1:
            raise PlanError(
                f"{text} cannot be put in at position {position} of {_pattern(parts)}\n  hint: positions 1 to {len(parts) + 1}"
            )
        new = Type(name, self._fresh(query, name))
        parts.insert(position - 1, Not(new) if text.startswith("!") else new)
        return _with(query, parts)

    def _removed(self, query: Query, moves: Sequence[PatternMove]) -> Query:
        gone = {position: _part(query, text, position) for text, position in moves}
        parts = [part for at, part in enumerate(self._parts, 1) if at not in gone]
        if gone and not any(isinstance(part, Type) for part in parts):
            raise PlanError(f"nothing would be left of {self.pattern}\n  hint: keep a component that is not negated")
        kept = [part for at, part in enumerate(_seq(query).parts, 1) if at not in gone]
        variables = {_type(part).variable for part in gone.values()}
        query = _with(query, kept)
        returns = tuple(item for item in query.returns if not variables & variables_of(item.value))
        pattern = replace(_seq(query), where=_without(_seq(query).where, variables))
        return replace(query, pattern=pattern, where=_without(query.where, variables), returns=returns)

    def _fresh(self, query: Query, name: str) -> str:
        """A variable for a new component: its type's name, numbered where that is taken."""
        taken = {_type(part).variable for part in _seq(query).parts}
        number = 1
        variable = name
        while variable in taken:
            number += 1
            variable = f"{name}_{number}"
        return variable

    def _side(self, side: int | tuple[int, int]) -> tuple[Type, dict[str, frozenset[str]]]:
        """The component at a position, and the types that its events are grouped by, each with what it covers."""
        position, steps = side if isinstance(side, Sequence) else (side, 1)
        if not 1 <= position <= len(self._parts) or isinstance(self._parts[position - 1], Not):
            positive = [str(at) for at, part in enumerate(self._parts, 1) if isinstance(part, Type)]
            raise PlanError(
                f"no events are bound at position {position} of {self.pattern}\n  hint: positions {', '.join(positive)}"
            )
        part = _type(self._parts[position - 1])
        if self.hierarchy is None or part.name not in self.hierarchy:
            return part, {part.name: frozenset({part.name})}
        groups: dict[str, frozenset[str]] = {}
        defined = {definition.name for definition in self.query.definitions}

        def walk(name: str, left: int) -> None:
            assert self.hierarchy is not None
            below = tuple(child for child in self.hierarchy.children(name) if child not in defined)
            if not left or not below:
                groups[name] = self.hierarchy.covers(name)
                return
            if name in self._known_types:  # events that carry the concept's own name
                groups[name] = frozenset({name})
            for child in below:
                walk(child, left - 1)

        walk(part.name, steps)
        return part, groups


class Cuboids(Sequence[Cube]):
    """Some cubes, each with the move that leads to it and its count."""

    def __init__(self, cubes: Sequence[Cube]) -> None:
        self._cubes = tuple(cubes)

    @overload
    def __getitem__(self, index: int) -> Cube: ...
    @overload
    def __getitem__(self, index: slice) -> Cuboids: ...
    def __getitem__(self, index: int | slice) -> Cube | Cuboids:
        return Cuboids(self._cubes[index]) if isinstance(index, slice) else self._cubes[index]

    def __len__(self) -> int:
        return len(self._cubes)

    @property
    def table(self) -> pa.Table:
        """The move, the pattern it leads to and the number of its matches, one row a cube."""
        columns = {"move": [c.move for c in self], "pattern": [c.pattern for c in self], "count": [c.count for c in self]}
        return pa.table(columns, pa.schema([("move", pa.string()), ("pattern", pa.string()), ("count", pa.int64())]))

    def __repr__(self) -> str:
        return "\n".join(f"{cube.move}: {cube!r}" for cube in self)

    def plot(self) -> altair.Chart:
        """Their counts as bars."""
        need("plot")
        import altair as alt

        rows = [{"move": cube.move or "here", "pattern": cube.pattern, "matches": cube.count} for cube in self]
        chart: altair.Chart = alt.Chart(alt.Data(values=rows)).mark_bar()  # type: ignore[no-untyped-call]
        shown = chart.encode(x="matches:Q", y=alt.Y("pattern:N", sort=None), tooltip=["move:N", "pattern:N", "matches:Q"])
        return shown.encode(color=alt.condition("datum.move == 'here'", alt.value("#0f766e"), alt.value("#99c9c4")))

    def _html_rows(self) -> str:
        rows = (f"<tr><td>{escape(cube.move)}: {escape(cube.pattern)}</td><td>{cube.count:,}</td></tr>" for cube in self)
        return f"<tbody>{''.join(rows)}</tbody>"

    def _repr_html_(self) -> str:
        return f"<table>{self._html_rows()}</table>"


# ---------------------------------------------------------------- counts


def _total(table: pa.Table) -> int:
    return int(table.column("count")[0].as_py())


# ---------------------------------------------------------------- parts of a query


def flat_query(query: Query) -> Query:
    """The query with a flat SEQ of types, or an error."""
    if query.aggregates:
        raise PlanError("a cube counts the matches of a query without AGG\n  hint: leave out AGG, and ask the cube for its count")
    pattern = flatten_pattern(query.pattern)
    pattern = Seq((pattern,)) if isinstance(pattern, Type) else pattern
    if not isinstance(pattern, Seq) or not all(isinstance(p.part if isinstance(p, Not) else p, Type) for p in pattern.parts):
        raise PlanError(
            "a cube is a SEQ of types, some negated\n  hint: AND, OR and negated expressions have no finer or coarser types"
        )
    if quantifiers(pattern) or query.order_by or query.skip is not None:
        raise PlanError("a cube counts single events in any order of equal times\n  hint: leave out quantifiers, ORDER BY and SKIP")
    if query.is_distinct or query.limit is not None:
        raise PlanError("a cube counts every match\n  hint: leave out DISTINCT and LIMIT")
    return replace(query, pattern=pattern)


def _seq(query: Query) -> Seq:
    assert isinstance(query.pattern, Seq)
    return query.pattern


def _with(query: Query, parts: Iterable[Part]) -> Query:
    return replace(query, pattern=replace(_seq(query), parts=tuple(parts)))


def _without(predicates: tuple[Predicate, ...], variables: set[str | None]) -> tuple[Predicate, ...]:
    return tuple(predicate for predicate in predicates if not variables & variables_of(predicate))


def _part(query: Query, text: str, position: int) -> Part:
    """The component at a position, which must be of the type that was said, with or without the `!` of a negated one."""
    parts = _seq(query).parts
    if not 1 <= position <= len(parts):
        raise PlanError(f"{_pattern(parts)} has no position {position}\n  hint: positions 1 to {len(parts)}")
    part: Part = parts[position - 1]
    if text not in (_plain(part), _type(part).name):
        places = ", ".join(f"{_plain(other)} is at {at}" for at, other in enumerate(parts, 1))
        raise PlanError(f"position {position} of {_pattern(parts)} is {_plain(part)}, not {text}\n  hint: {places}")
    return part


def _type(part: Part) -> Type:
    inner = part.part if isinstance(part, Not) else part
    assert isinstance(inner, Type)
    return inner


def _plain(part: Part) -> str:
    return "!" * isinstance(part, Not) + _type(part).name


def _show(part: Part) -> str:
    return "!" * isinstance(part, Not) + quote(_type(part).name)


def _pattern(parts: Iterable[Part]) -> str:
    return f"SEQ({', '.join(map(_show, parts))})"


def _written(concept: Sequence[ConceptMove], pattern: Sequence[PatternMove], verb: str) -> str:
    moves = [f"{old} -> {new} at {position}" for old, new, position in concept]
    return ", ".join([*moves, *(f"{verb} {name} at {position}" for name, position in pattern)])


def _with_definitions(hierarchy: Hierarchy | None, query: Query) -> Hierarchy | None:
    """The hierarchy with what a query defines: each such type stands below the one it is made of."""
    if not query.definitions:
        return hierarchy
    return (hierarchy or Hierarchy({})).below({definition.name: definition.type for definition in query.definitions})
