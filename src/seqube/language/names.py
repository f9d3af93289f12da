"""What things are called: default variables, and the columns of a result.

A component without a variable takes its type's name where that can only mean one component; otherwise such components are numbered
(`A_1`, `A_2`) past any name that is taken. Result columns follow `AS`, else the value itself: `r_id` for `r.id`, `avg_o_duration`
for `AVG(o.duration)`, `column_2` for a calculation in second place. Binder, writer and results use these functions alike, so a
name that can be derived is never written out and parses back the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from seqube.errors import Problem, Span
from seqube.events.schema import HIDDEN_COLUMNS
from seqube.language.tree import TYPE_ATTRIBUTE, Aggregate, AtLevel, Attribute, Call, Literal, OfList, Query, Type, Value


def default_variables(types: Sequence[Type]) -> list[str]:
    """A variable for every type of a pattern, in order; explicit ones stay as they are."""
    explicit = {leaf.variable for leaf in types if leaf.variable is not None}
    unnamed = Counter(leaf.name for leaf in types if leaf.variable is None)
    plain = {name for name, times in unnamed.items() if times == 1 and name not in explicit}
    taken = explicit | plain
    numbers: Counter[str] = Counter()
    variables = []
    for leaf in types:
        variable = leaf.variable or leaf.name
        if leaf.variable is None and leaf.name not in plain:
            while variable in taken or variable == leaf.name:
                numbers[leaf.name] += 1
                variable = f"{leaf.name}_{numbers[leaf.name]}"
            taken.add(variable)
        variables.append(variable)
    return variables


def type_of_part(key: Attribute, types: Mapping[str, str], positive: Iterable[str], keys: Collection[str]) -> Attribute | Problem:
    """What a key of GROUP BY means: a name that stands alone is a partition key or, as in the E-Cube paper, a component's type.

    `types` are those of all variables. Where the name can mean several things, nothing is guessed.
    """
    named = [variable for variable, name in types.items() if key.variable is None and key.name in (variable, name)]
    meant = [variable for variable in positive if variable in named] or named
    if not meant:
        return key
    ways = [f"{variable}.type" for variable in meant]
    ways += [f"{variable}.{key.name} for the partition key" for variable in positive if key.name in keys][:1]
    if len(ways) > 1:
        return Problem(f"{key.name!r} in GROUP BY could mean several things", key.at, f"write {', or '.join(ways)}")
    return replace(key, variable=meant[0], name=TYPE_ATTRIBUTE, sure=True)


def column_name(value: Value, position: int) -> str:
    """The name of a result column without AS; `position` counts from 1."""
    match value:
        case Attribute(None, name):
            return HIDDEN_COLUMNS.get(name, name)
        case Attribute(variable, name):
            return f"{variable}_{HIDDEN_COLUMNS.get(name, name)}"
        case Aggregate(function, None):
            return function.lower()
        case OfList("COUNT", Attribute(variable, _)):
            return f"count_{variable}"
        case Aggregate(function, Attribute() as argument) | OfList(function, argument):
            return f"{function.lower().replace(' ', '_')}_{column_name(argument, position)}"
        case Aggregate(function, _):
            return f"{function.lower().replace(' ', '_')}_{position}"
        case _:
            return f"column_{position}"


def clashes(query: Query, variables: Mapping[str, Span | None]) -> Iterator[Problem]:
    """Columns of a result that have the name of another; `variables` are those of a match, with their places."""
    taken: dict[str, str] = {}
    columns: list[tuple[str, Span | None, str]] = []
    if query.aggregates:
        if query.emit is not None and query.emit.when != "total":
            taken["ts"] = "the time of each row"
        columns += [(group_name(key, number), key.at, "group by it once") for number, key in enumerate(query.group_by, 1)]
    elif not query.returns:
        taken = {"start": "the start of each match", "end": "the end of each match"}
        columns = [(name, at, "give it another variable, or use RETURN") for name, at in variables.items()]
    if query.keeps_partial:
        taken["reached"] = "how far each run got"
        taken["end"] = "the end of each run"
    columns += [(output.name or "", output.at, "name it with AS") for output in (*query.aggregates, *query.returns)]
    for name, at, advice in columns:
        if name in taken:
            yield Problem(f"two columns of the result are called {name!r} (the other is {taken[name]})", at, advice)
        taken.setdefault(name, f"in line {at.line}, column {at.column}" if at else "before it")


def group_name(key: Value, position: int) -> str:
    """The name of the column of a key of GROUP BY: `upper_a_name`, `hour_a_ts` for EXTRACT(HOUR FROM a.ts), `a_type_at_1`."""
    match key:
        case Call("EXTRACT" | "DATE_TRUNC", (Literal(part), Attribute() as time)):
            return f"{str(part).lower()}_{column_name(time, position)}"
        case Call(function, (Attribute() as argument,)):
            return f"{function.lower()}_{column_name(argument, position)}"
        case AtLevel(argument, level):
            return f"{column_name(argument, position)}_at_{level}"
        case Attribute():
            return column_name(key, position)
        case _:
            return f"group_{position}"
