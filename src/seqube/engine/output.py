"""From rows to result columns: `start`, `end` and a struct per variable (a list of them, if repeated), or what RETURN asks for.

A struct repeats the event's own columns. Columns that are fixed in width are gathered by NumPy, the type of a variable that
stands for one type is written once and repeated, all else is Arrow's `take`.

Cost: one gather per column and variable.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.bindings import UNBOUND, Column, Lists, last_rows, nothing
from seqube.engine.display import flat
from seqube.engine.instances import Instances
from seqube.engine.numbers import settled
from seqube.engine.predicates import Evaluator, Ints, gather, take
from seqube.errors import DataError, PlanError
from seqube.events import Events
from seqube.events.schema import ANY, value_type
from seqube.language.mentions import attributes
from seqube.language.tree import Attribute, OfList, Output
from seqube.plan.physical import MatchPlan, list_variables, scans

START, END, REACHED = "start", "end", "reached"
PICKED = ("FIRST", "LAST", "MIN", "MAX")  # functions of lists that give one of its values
FEW_MATCHES = 1 << 10


def read_by_return(plan: MatchPlan) -> frozenset[str]:
    """The variables whose rows thinning out and writing the matches will read."""
    if plan.skip is not None:
        return frozenset(plan.variables)
    names = {attribute.variable for item in plan.returns for attribute in attributes(item.value)}
    return frozenset(plan.variables) if not names or None in names else frozenset(name for name in names if name is not None)


class MatchWriter:
    """Writes matches of one plan over one batch as Arrow tables."""

    def __init__(self, plan: MatchPlan, events: Events, evaluator: Evaluator) -> None:
        self._plan = plan
        self._events = events
        self._evaluator = evaluator
        names = plan.pattern.binds
        if not plan.returns and (clash := {START, END} & set(names)):
            raise PlanError(
                f"the variable {min(clash)!r} has the name of a result column\n  hint: call it otherwise, or say what to RETURN"
            )
        self._names = plan.variables
        self._fields = list(events.table.schema)
        self._kind = pa.struct(self._fields)
        self._time_number = events.table.schema.get_field_index(events.time_column)
        # Variables of one single type: their type column is a constant.
        self._repeated: dict[str, pa.Array] = {}
        self._constant = {scan.variable: scan.name for scan in scans(plan.pattern) if scan.types == {scan.name} != {ANY}}
        self.knows_types = self._constant.keys() >= set(self._names)  # the type of an event follows from its variable

    def over(self, events: Events, evaluator: Evaluator) -> MatchWriter:
        """One for other events with the same columns: what is known of these is known of those."""
        writer = copy(self)
        writer._events, writer._evaluator = events, evaluator
        return writer

    def write(self, piece: Instances) -> pa.Table:
        time = self._events.column("ts")
        if self._plan.returns:
            columns = {item.name or "": self._item(item, piece) for item in self._plan.returns}
        else:
            columns = {START: gather(time, piece.first_rows), END: gather(time, piece.last_rows)}
            together = self._together(piece) if len(piece) <= FEW_MATCHES else None
            columns |= together or {name: self._events_of(name, piece.rows[name]) for name in self._plan.variables}
        if self._plan.keeps_partial:
            columns[REACHED] = pa.array(piece.reached if piece.reached is not None else piece.last_rows)
            columns.setdefault(END, gather(time, piece.last_rows))
        return flat(pa.table(columns)) if self._plan.is_flat else pa.table(columns)

    def _together(self, piece: Instances) -> dict[str, pa.StructArray] | None:
        """The events of all variables, gathered at once, because few rows cost less than a call; None with lists or nulls."""
        names, size = self._plan.variables, len(piece)
        rows = [rows for name in names if isinstance(rows := piece.rows[name], np.ndarray)]
        if len(rows) < len(names) or (whole := np.concatenate(rows)).min(initial=0) < 0:
            return None
        table = self._events.table
        return self._structs([gather(table.column(number).chunk(0), whole) for number in range(table.num_columns)], size)

    def write_events(self, columns: list[pa.Array | None], size: int) -> pa.Table:
        """So many matches, from the columns of their events: those of the first variable, then of the next, to the last.

        A column that is not there is that of the types, which are known.
        """
        time = columns[self._time_number]
        table = pa.table({START: time.slice(0, size), END: time.slice(len(time) - size, size), **self._structs(columns, size)})
        return flat(table) if self._plan.is_flat else table

    def _structs(self, columns: list[pa.Array | None], size: int) -> dict[str, pa.StructArray]:
        """The events of variable after variable, as a struct for each."""
        structs = {}
        for number, name in enumerate(self._names):
            own = [self._types(name, size) if column is None else column.slice(size * number, size) for column in columns]
            structs[name] = pa.StructArray.from_buffers(self._kind, size, [None], children=own)
        return structs

    def _types(self, variable: str, size: int) -> pa.Array:
        """The type of a variable's events, so often: cut from a column that is made once."""
        known = self._repeated.get(variable)
        if known is None or len(known) < size:
            known = self._repeated[variable] = pa.repeat(pa.scalar(self._constant[variable], pa.string()), max(size, FEW_MATCHES))
        return known.slice(0, size)

    def _item(self, item: Output, piece: Instances) -> pa.Array:
        """A column of RETURN. Whole numbers stay whole: a column does not change its type where a result leaves 64 bits."""
        column = settled(self._evaluator.array(item.value, piece.rows, len(piece)), self._kinds[item])
        if column is not None:
            return column
        raise DataError(
            f"{item.name} is a column of whole numbers, and one of them is not whole or leaves 64 bits\n"
            "  hint: return it as a decimal number: multiply by 1.0 first"
        )

    @cached_property
    def _kinds(self) -> dict[Output, pa.DataType]:
        """The types of RETURN's columns: those they have without a row, so that no row decides them."""
        none = nothing(self._plan.pattern.binds, list_variables(self._plan.pattern))
        evaluator = Evaluator(self._events.slice(0, 0))
        kinds = {item: evaluator.array(item.value, none, 0).type for item in self._plan.returns}
        for item in self._plan.returns:  # what is a value of a column as it is has its type, unsigned ones too
            value = item.value.argument if isinstance(item.value, OfList) and item.value.function in PICKED else item.value
            if isinstance(value, Attribute) and pat.is_uint64(kind := value_type(self._events.column(value.name).type)):
                kinds[item] = pa.list_(kind) if pat.is_list(kinds[item]) else kind
        return kinds

    def empty(self) -> pa.Table:
        """The result without a row: its column names and types."""
        if self._plan.returns and not self._plan.keeps_partial:
            columns = {item.name or "": pa.nulls(0, kind) for item, kind in self._kinds.items()}
            return flat(pa.table(columns)) if self._plan.is_flat else pa.table(columns)
        none = np.empty(0, np.int64)
        return self.write(Instances(nothing(self._plan.variables, list_variables(self._plan.pattern)), none, none))

    def _events_of(self, variable: str, column: Column) -> pa.Array:
        """The event of each match, or its list of events."""
        if isinstance(column, Lists) and not column.single:
            return pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), self._struct(variable, column.rows))
        return self._struct(variable, last_rows(column))

    def _struct(self, variable: str, rows: Ints) -> pa.StructArray:
        table = self._events.table
        fields, columns = self._fields, []
        unbound = rows == UNBOUND
        partly = bool(unbound.any())
        for field in fields:
            column = table.column(field.name).chunk(0)
            if field.name == self._events.type_column and variable in self._constant and pat.is_string(field.type) and not partly:
                columns.append(self._types(variable, len(rows)))
            else:
                columns.append(take(column, rows) if partly else gather(column, rows))
        return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(unbound) if partly else None)
