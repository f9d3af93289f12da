"""A draft to a bound query: every name resolved, every rule of the language checked, all mistakes collected.

Scopes. A variable belongs to the operator whose direct component it is (negated or not) and is seen there and in everything nested
inside. WHERE belongs to the outermost operator and sees, besides its components, every positive variable of the query. RETURN,
GROUP BY and AGG see positive variables only: a match has no event for a negated one.

    SEQ(A a, !B b, SEQ(C c, D d, <1>), <2>) WHERE <3> RETURN <4>
        <1> a b c d      <2> a b      <3> a b c d      <4> a c d

A predicate that names a negated variable is part of that negation, so all negations it touches must enclose one another; the
`negations` of a variable (the Nots around it, outermost first) make this a test of prefixes.

Cost: linear in the query times its depth (at most 100, which the parser guarantees, so plain recursion is safe here).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard, assert_never

from seqube.errors import Problem, QueryError, Span, did_you_mean
from seqube.events.schema import ANY, HIDDEN_COLUMNS
from seqube.language import mentions, tree
from seqube.language.functions import AGGREGATES, OF_EVENTS, OF_LISTS
from seqube.language.names import clashes, column_name, default_variables, type_of_part
from seqube.language.parser import CLAUSES, Draft, in_order
from seqube.language.rewriting import NamedLeaf, rewrite_leaves, split_conjuncts, values_of_events, with_variables
from seqube.language.tree import (
    TIME_ATTRIBUTE,
    Aggregate,
    Attribute,
    Definition,
    Emit,
    Output,
    Part,
    Pattern,
    Predicate,
    Query,
    Type,
    Value,
    Window,
)

_Path = tuple[int, ...]  # where a part stands in the pattern: which part of which part


@dataclass(frozen=True, slots=True)
class _Variable:
    """A declared variable: its component, the Nots around it (outermost first) and the operator it is a component of."""

    name: str
    leaf: Type
    negations: tuple[_Path, ...]
    operator: str


def bind(draft: Draft, source: str) -> Query:
    """Resolve and check a draft; raise one `QueryError` with every problem found."""
    query, problems = resolve(draft, source)
    if problems:
        raise QueryError(in_order(problems), source)
    return query


def resolve(draft: Draft, source: str) -> tuple[Query, list[Problem]]:
    """A draft with its names resolved as far as they can be, and every problem found on the way."""
    binder = _Binder(draft, source)
    return binder.query(), binder.problems


class _Binder:
    def __init__(self, draft: Draft, source: str) -> None:
        self.draft = draft
        self.source = source
        self.lines = source.split("\n")
        self.problems: list[Problem] = list(draft.problems)
        self.keys = {key.name for key in draft.partition_by}
        leaves = list(mentions.leaves(draft.pattern))
        names = default_variables(leaves)
        self.numbered = {leaf.name for leaf, name in zip(leaves, names, strict=True) if leaf.variable is None and name != leaf.name}
        self.pattern = with_variables(draft.pattern, iter(names))
        self.variables: dict[str, _Variable] = {}
        self._declare(self.pattern, (), (), "the pattern")
        self.positive = {name: variable for name, variable in self.variables.items() if not variable.negations}

    def fail(self, message: str, at: Span | None, hint: str | None = None) -> None:
        self.problems.append(Problem(message, at, hint))

    def query(self) -> Query:
        draft = self.draft
        own = self._components(self.pattern) if not isinstance(self.pattern, Type) else self.positive
        pattern = self._pattern(self.pattern, {}, (), ())
        where = self._conjuncts(draft.where, {**self.positive, **own}, (), in_where=True) if draft.where else ()
        query = Query(
            pattern=pattern,
            window=self._window(),
            where=where,
            partition_by=self._names("partition_by", draft.partition_by),
            order_by=self._names("order_by", draft.order_by),
            definitions=self._definitions(),
            skip=self._skip(),
            keeps_partial=self._keeps_partial(),
            group_by=self._group_by(),
            aggregates=self._aggregates(),
            emit=self._emit(),
            returns=self._returns(),
            returns_all=draft.returns is not None and draft.returns.is_all,
            is_distinct=self._is_distinct(),
            limit=self._limit(),
            source=self.source,
        )
        self.problems += clashes(query, {name: variable.leaf.at for name, variable in self.positive.items()})
        return replace(query, having=self._having(query.aggregates))

    # ---------------------------------------------------------------- patterns

    def _declare(
        self, part: Part, path: _Path, negations: tuple[_Path, ...], operator: str, within: tree.Composite | tree.Not | None = None
    ) -> None:
        match part:
            case Type():
                self._check_quantifier(part, within)
                name = part.variable
                assert name is not None
                first = self.variables.get(name)
                if first is None:
                    self.variables[name] = _Variable(name, part, negations, operator)
                else:
                    self.fail(
                        f"two components have the variable {name!r}{_first(first.leaf.at)}", part.at, "give each its own variable"
                    )
            case tree.Not(inner):
                self._declare(inner, path, (*negations, path), operator, part)
            case tree.Seq() | tree.Next() | tree.Strict() | tree.And() | tree.Or():
                word = type(part).__name__.upper()
                if word != "OR" and all(isinstance(child, tree.Not) for child in part.parts):
                    self.fail(f"{word} has only negated components", part.at, "give it at least one component that is not negated")
                here = f"{word} in line {part.at.line}, column {part.at.column}" if part.at else word
                for number, child in enumerate(part.parts):
                    if word == "OR" and isinstance(child, tree.Not):
                        self.fail("a component of OR cannot be negated", child.at, "negate inside a SEQ or AND: OR(A, SEQ(B, !C))")
                    if word in ("NEXT", "STRICT") and not _is_step(child):
                        self.fail(
                            f"a part of {word} is a type or an OR of types",
                            child.at,
                            f"give the other operator a place outside: SEQ({word}(A a, B b), AND(C c, D d))",
                        )
                    self._declare(child, (*path, number), negations, here, part)
            case _:
                assert_never(part)

    def _check_quantifier(self, part: Type, within: tree.Composite | tree.Not | None) -> None:
        """Where a part may be repeated, and how."""
        quantifier = part.quantifier
        if quantifier is None:
            return
        match within:
            case tree.Not():
                self.fail("a negated part carries a quantifier", quantifier.at, f"!{part.name} already means none")
            case tree.Seq():
                if quantifier.reluctant:
                    self.fail(
                        "in SEQ every list counts, so none is reluctant",
                        quantifier.at,
                        "leave the second question mark out, or write NEXT or STRICT",
                    )
            case tree.Next() | tree.Strict():
                pass
            case _:
                place = "the whole pattern" if within is None else f"a part of {type(within).__name__.upper()}"
                inside = f"SEQ({part.name}{quantifier} {part.variable})"
                hint = inside if within is None else f"{type(within).__name__.upper()}({inside}, ...)"
                self.fail(f"{place} carries a quantifier", quantifier.at, f"put it into a SEQ: {hint}")

    def _components(self, operator: Pattern) -> dict[str, _Variable]:
        """The variables an operator declares itself: those of its direct components, negated ones included."""
        parts = () if isinstance(operator, Type) else operator.parts
        inner = (part.part if isinstance(part, tree.Not) else part for part in parts)
        names = (part.variable for part in inner if isinstance(part, Type))
        return {name: self.variables[name] for name in names if name is not None}

    def _pattern(self, part: Pattern, visible: Mapping[str, _Variable], path: _Path, negations: tuple[_Path, ...]) -> Pattern:
        if isinstance(part, Type):
            return part
        visible = {**visible, **self._components(part)}
        where = tuple(conjunct for item in part.where for conjunct in self._conjuncts(item, visible, negations))
        if isinstance(part, tree.Or):
            # A negated component here is already a problem, so what becomes of it no longer matters.
            children: tuple[Part, ...] = part.parts
            inner = [child.part if isinstance(child, tree.Not) else child for child in children]
            branches = (self._pattern(child, visible, (*path, number), negations) for number, child in enumerate(inner))
            return replace(part, parts=tuple(branches), where=where)
        parts: list[Part] = []
        for number, child in enumerate(part.parts):
            at = (*path, number)
            if isinstance(child, tree.Not):
                parts.append(replace(child, part=self._pattern(child.part, visible, at, (*negations, at))))
            else:
                parts.append(self._pattern(child, visible, at, negations))
        return replace(part, parts=tuple(parts), where=where)

    # ---------------------------------------------------------------- predicates

    def _conjuncts(
        self, predicate: Predicate, visible: Mapping[str, _Variable], negations: tuple[_Path, ...], in_where: bool = False
    ) -> tuple[Predicate, ...]:
        """Split at AND and at chains, and check the names of each conjunct."""

        def resolve(leaf: NamedLeaf) -> Value:
            if isinstance(leaf, Aggregate):
                return self._of_list(leaf, visible, "compare aggregates in HAVING", in_where)
            if isinstance(leaf, tree.Prev):
                self._check_prev(leaf, visible, in_where)
            elif leaf.variable is None:
                self._fail_bare(leaf, visible)
            elif leaf.variable not in visible:
                self._fail_variable(leaf, visible, in_where)
            return leaf

        conjuncts = tuple(rewrite_leaves(conjunct, resolve) for conjunct in split_conjuncts(predicate))
        for conjunct in conjuncts:
            self._check_same(conjunct)
            self._check_negations(conjunct, visible, negations)
        return conjuncts

    def _is_list(self, variable: str | None) -> bool:
        declared = self.variables.get(variable or "")
        return declared is not None and declared.leaf.is_list

    def _of_list(self, call: Aggregate, visible: Mapping[str, _Variable], advice: str, in_where: bool = True) -> Value:
        """A function of a list, where aggregates have no place."""
        argument = call.argument
        if argument is not None and not isinstance(argument, Attribute):
            self.fail(f"{call.function} of a list takes one attribute of one variable", call.at, f"write {call.function}(v.x)")
            return call
        if argument is not None and argument.variable is None:  # COUNT(f)
            argument = Attribute(HIDDEN_COLUMNS.get(argument.name, argument.name), TIME_ATTRIBUTE, argument.at, sure=True)
        known = argument is not None and argument.variable in self.variables
        if argument is None or (known and self.variables[argument.variable or ""].leaf.quantifier is None):
            self.fail(f"{call.function} stands outside AGG and HAVING", call.at, advice)
            return call
        if call.function not in OF_LISTS:
            there = ", ".join(function.call for function in OF_LISTS.values())
            self.fail(f"{call.function} is no function of a list", call.at, f"there are {there}")
            return call
        if argument.variable not in visible:
            self._fail_variable(argument, visible, in_where)
        return tree.OfList(call.function, argument, call.at)

    def _is_aggregate(self, call: Aggregate) -> bool:
        """Whether a function in AGG or HAVING is one of matches; if not, that is a problem."""
        if isinstance(call.argument, Attribute) and call.argument.variable is None:
            self.fail(f"{call.function} takes *: it counts matches", call.at, f"write {call.function}(*)")
            return False
        return True

    def _check_prev(self, leaf: tree.Prev, visible: Mapping[str, _Variable], in_where: bool) -> None:
        name = leaf.argument.variable
        if name not in visible:
            self._fail_variable(leaf.argument, visible, in_where)
        elif not self._is_list(name):
            self.fail(f"PREV asks for the event before, and {name!r} is no list", leaf.at, f"repeat the part: B+ {name}")

    def _check_same(self, predicate: Predicate) -> None:
        for part in tree.walk(predicate):
            if isinstance(part, tree.Same) and part is not predicate:
                self.fail(
                    f"[{part.attribute}] can only be joined to other predicates by AND",
                    part.at,
                    "compare the variables one by one here",
                )

    def _check_negations(self, predicate: Predicate, visible: Mapping[str, _Variable], negations: tuple[_Path, ...]) -> None:
        named = {
            leaf.variable: visible[leaf.variable]
            for leaf in mentions.attributes(predicate)
            if leaf.variable and leaf.variable in visible
        }
        deepest = max((variable.negations for variable in named.values()), key=len, default=())
        if len(deepest) < len(negations):
            deepest = negations
        apart = [variable for variable in named.values() if variable.negations != deepest[: len(variable.negations)]]
        if not apart and deepest[: len(negations)] == negations:
            return
        others = [variable.name for variable in named.values() if variable.negations and variable not in apart]
        if apart and others:
            message = f"this predicate names two negated components, {others[0]!r} and {apart[0].name!r}"
        else:
            name = apart[0].name if apart else next(v.name for v in named.values() if v.negations == deepest)
            message = f"this predicate stands inside a negation and names another negated component, {name!r}"
        self.fail(message, predicate.at, "each negation is about events that are not there: write one predicate for each")

    # ---------------------------------------------------------------- names that cannot be resolved

    def _quoted(self, at: Span | None) -> bool:
        return at is not None and self.lines[at.line - 1][at.column - 1 : at.column] == '"'

    def _fail_bare(self, leaf: Attribute, visible: Mapping[str, _Variable]) -> None:
        if self._quoted(leaf.at):
            self.fail(f'"{leaf.name}" is a name, not a string', leaf.at, f"strings take single quotes: '{leaf.name}'")
            return
        example = next(iter(visible), "v")
        hint = (
            f"write {leaf.name}.x for an attribute x of it" if leaf.name in visible else f"write whose it is: {example}.{leaf.name}"
        )
        self.fail(f"{leaf.name!r} has no variable", leaf.at, hint)

    def _fail_variable(self, leaf: Attribute, visible: Mapping[str, _Variable], in_where: bool) -> None:
        name = leaf.variable
        assert name is not None
        declared = self.variables.get(name)
        if declared is not None:
            if declared.negations:
                hint = "it is negated: move this predicate into the parentheses where it is declared"
            elif in_where:
                hint = "move this predicate into the parentheses where it is declared"
            else:
                hint = f"move this predicate to WHERE, or into the parentheses where {name!r} is declared"
            self.fail(f"{name!r} cannot be seen here: it is declared inside {declared.operator}", leaf.at, hint)
        elif name in self.numbered:
            self.fail(f"{name!r} could mean several components of that type", leaf.at, f"give them variables: {name} x, {name} y")
        else:
            named = [variable.name for variable in self.variables.values() if variable.leaf.name == name]
            known = f"the component of type {name} has the variable {named[0]!r}" if named else did_you_mean(name, visible)
            self.fail(f"there is no variable {name!r}", leaf.at, known)

    def _positive(self, leaf: Attribute, clause: str) -> Attribute:
        """An attribute of a positive variable, or a partition key."""
        if leaf.variable is None:
            if leaf.name not in self.keys:
                if self._quoted(leaf.at):
                    hint: str | None = f"strings take single quotes: '{leaf.name}'"
                elif leaf.name in self.variables:
                    hint = f"write {leaf.name}.x for an attribute x of it"
                else:
                    hint = f"write whose it is ({next(iter(self.positive), 'v')}.{leaf.name}), or add it to PARTITION BY"
                self.fail(f"{leaf.name!r} in {clause} is not a partition key", leaf.at, hint)
        elif leaf.variable not in self.positive:
            declared = self.variables.get(leaf.variable)
            if declared is not None:
                self.fail(
                    f"{clause} names {leaf.variable!r}, which is negated: a match has no event for it",
                    leaf.at,
                    "name a component that is not negated",
                )
            else:
                self._fail_variable(leaf, self.positive, in_where=True)
        return leaf

    # ---------------------------------------------------------------- clauses

    def _definitions(self) -> tuple[Definition, ...]:
        """Each stands for a type that is no name of a later one, with conditions on bare attributes, which are the event's own."""
        found: list[Definition] = []
        names = [definition.name for definition in self.draft.definitions]
        for number, definition in enumerate(self.draft.definitions):
            own = {definition.name, definition.type}

            def resolve(leaf: NamedLeaf, own: set[str] = own, name: str = definition.name) -> Value:
                if not isinstance(leaf, Attribute):
                    self.fail("a condition of DEFINE is about one event", leaf.at, "compare attributes of the event")
                elif leaf.variable is not None and leaf.variable not in own:
                    called = next(function for function, own in OF_EVENTS.items() if own == leaf.name) if leaf.sure else None
                    hint = f"{called}({name})" if called else f"write the attribute alone: {leaf.name}"
                    self.fail(f"DEFINE knows no variable {leaf.variable!r}", leaf.at, hint)
                return replace(leaf, variable=None) if isinstance(leaf, Attribute) else leaf

            if definition.name in names[:number]:
                self.fail(f"{definition.name!r} is defined twice", definition.at, "give one of them another name")
            elif definition.name == ANY:
                self.fail(f"{ANY} is every event", definition.at, "give it another name")
            if definition.type in names[number:]:
                self.fail(f"{definition.name!r} is made of {definition.type!r}, which is not defined before it", definition.at)
            for part in (node for condition in definition.where for node in tree.walk(condition)):
                if isinstance(part, tree.Same):
                    self.fail(f"[{part.attribute}] has no meaning in DEFINE", part.at, "put it into WHERE")
            where = tuple(
                rewrite_leaves(conjunct, resolve) for condition in definition.where for conjunct in split_conjuncts(condition)
            )
            found.append(replace(definition, where=where))
        return tuple(found)

    def _window(self) -> Window:
        window = self.draft.window
        if window is None:
            last = len(self.lines)
            while last > 1 and not self.lines[last - 1].strip():
                last -= 1
            at = Span(last, len(self.lines[last - 1]) + 1)
            self.fail("WITHIN is missing", at, "say how long a match may take: WITHIN 10 min")
            return Window(1, "us")
        if window.length == 0:
            self.fail("WITHIN must be longer than zero", window.at, "a match spans less than its window: WITHIN 10 min")
        return window

    def _names(self, clause: str, columns: tuple[Attribute, ...]) -> tuple[str, ...]:
        seen: set[str] = set()
        for column in columns:
            if column.name in seen:
                self.fail(f"{column.name!r} is twice in {CLAUSES[clause]}", column.at, f"name each {_COLUMNS[clause]} once")
            seen.add(column.name)
        return tuple(column.name for column in columns)

    def _skip(self) -> tree.Skip | None:
        skip = self.draft.skip
        if skip is not None and skip.variable is not None and skip.variable not in self.positive:
            self._positive(Attribute(skip.variable, TIME_ATTRIBUTE, skip.at), "SKIP")
        return skip

    def _keeps_partial(self) -> bool:
        if self.draft.keep:
            at = self.draft.places["keep"]
            if not isinstance(self.pattern, tree.Next):
                self.fail("KEEP PARTIAL is for a NEXT that is the whole pattern", at, "write PATTERN NEXT(A a, B b)")
            if self.draft.skip is not None:
                self.fail("KEEP PARTIAL and SKIP do not go together", at, "leave one of them out")
            parts = () if not isinstance(self.pattern, tree.Next) else self.pattern.parts
            surely = [n for n, part in enumerate(parts) if not isinstance(part, tree.Not) and not _may_be_absent(part)]
            for part in parts[: surely[0]] if surely else parts:
                if isinstance(part, tree.Not):
                    self.fail(
                        "KEEP PARTIAL with a negation that no part surely stands before",
                        part.at,
                        "how far a run got is told by the parts before the negation that cancels it",
                    )
            if self.draft.aggregates:
                self.fail("KEEP PARTIAL and AGG do not go together", at, "leave AGG out, and count the rows by reached")
        return self.draft.keep

    def _group_by(self) -> tuple[Value, ...]:
        self._needs_aggregates("group_by")
        types = {name: variable.leaf.name for name, variable in self.variables.items()}
        known = (types, self.positive, self.keys)
        meant = [type_of_part(key, *known) if isinstance(key, Attribute) else key for key in self.draft.group_by]
        self.problems += [key for key in meant if isinstance(key, Problem)]
        keys = tuple(
            self._positive(key, "GROUP BY") if isinstance(key, Attribute) else self._of_events(key, "GROUP BY")
            for key in meant
            if not isinstance(key, Problem)
        )
        for key in keys:
            for name in filter(self._is_list, sorted(mentions.variables_of(key))):
                message = f"GROUP BY names {name!r}, which is a list: a match has many of its values"
                self.fail(message, key.at, "group by a part that is one event")
            if len(names := sorted(mentions.variables_of(key))) > 1:
                self.fail(
                    f"GROUP BY takes values of one event, and this is of {' and '.join(names)}", key.at, "group by each of them"
                )
        return keys

    def _of_events(self, value: Value, clause: str) -> Value:
        return values_of_events(value, clause, self._positive, self._is_list, self.fail)

    def _needs_aggregates(self, clause: str) -> None:
        if clause in self.draft.places and "aggregates" not in self.draft.places:
            word = CLAUSES[clause]
            self.fail(f"{word} needs AGG", self.draft.places[clause], f"add AGG COUNT(*), or leave {word} out")

    def _aggregates(self) -> tuple[Output, ...]:
        outputs = []
        for position, output in enumerate(self.draft.aggregates, 1):
            value = output.value
            if _is_count(value):
                value = Aggregate(value.name.upper(), None, value.at)
            if not isinstance(value, Aggregate):
                *calls, last = (function.call for function in AGGREGATES.values())
                self.fail("AGG takes aggregates only", output.at, f"write {', '.join(calls)} or {last}")
            elif not self._is_aggregate(value):
                value = tree.Literal(None)
            elif value.argument is not None:
                value = replace(value, argument=self._of_events(value.argument, "AGG"))
            outputs.append(replace(output, value=value, name=output.name or column_name(value, position)))
        return tuple(outputs)

    def _having(self, aggregates: tuple[Output, ...]) -> tuple[Predicate, ...]:
        self._needs_aggregates("having")
        if self.draft.having is None:
            return ()
        by_name = {output.name: output.value for output in aggregates}

        def resolve(leaf: NamedLeaf) -> Value:
            if isinstance(leaf, tree.Prev):
                self.fail("PREV has no meaning in HAVING", leaf.at, "put it into WHERE")
            elif isinstance(leaf, Aggregate):
                if not self._is_aggregate(leaf):
                    return tree.Literal(None)
                if leaf.argument is not None:
                    return replace(leaf, argument=self._of_events(leaf.argument, "HAVING"))
            elif leaf.variable is not None:
                self.fail("HAVING compares aggregates, not attributes", leaf.at, "test attributes in WHERE")
            elif (name := HIDDEN_COLUMNS.get(leaf.name, leaf.name)) in by_name:
                return replace(by_name[name], at=leaf.at)
            elif _is_count(leaf):
                return Aggregate(leaf.name.upper(), None, leaf.at)
            else:
                hint = (
                    f"strings take single quotes: '{leaf.name}'"
                    if self._quoted(leaf.at)
                    else did_you_mean(leaf.name, filter(None, by_name))
                )
                self.fail(f"{leaf.name!r} in HAVING is not the name of an aggregate", leaf.at, hint)
            return leaf

        for part in tree.walk(self.draft.having):
            if isinstance(part, tree.Same):
                self.fail(f"[{part.attribute}] has no meaning in HAVING", part.at, "put it into WHERE")
        return tuple(rewrite_leaves(conjunct, resolve) for conjunct in split_conjuncts(self.draft.having))

    def _emit(self) -> Emit | None:
        self._needs_aggregates("emit")
        emit = self.draft.emit
        if emit is not None and emit.period is not None:
            word = f"EMIT {emit.when.upper()}"
            if emit.period.counts_events:
                self.fail(f"{word} takes a time, not a number of events", emit.period.at, f"write a time: {word} 5 min")
            elif emit.period.length == 0:
                self.fail(f"{word} must be longer than zero", emit.period.at, f"write a time: {word} 5 min")
        return emit or (Emit("trigger") if self.draft.aggregates else None)

    def _returns(self) -> tuple[Output, ...]:
        self._not_with_aggregates("returns", "leave one of them out; GROUP BY adds columns to AGG")

        def resolve(leaf: NamedLeaf) -> Value:
            match leaf:
                case tree.Prev():
                    self.fail("PREV has no meaning in RETURN", leaf.at, "it is for conditions: WHERE f.x > PREV(f.x)")
                    return leaf
                case Aggregate():
                    return self._of_list(leaf, self.positive, "aggregates go into AGG, in place of RETURN")
                case _:
                    return self._positive(leaf, "RETURN")

        outputs = []
        for position, output in enumerate(self.draft.returns.outputs if self.draft.returns else (), 1):
            value = rewrite_leaves(output.value, resolve)
            self._check_lists(value)
            outputs.append(replace(output, value=value, name=output.name or column_name(value, position)))
        return tuple(outputs)

    def _is_distinct(self) -> bool:
        returned = self.draft.returns
        if returned is None or not returned.is_distinct:
            return False
        named = [output.value for output in returned.outputs] or [
            Attribute(name, TIME_ATTRIBUTE, sure=True) for name in self.positive
        ]
        for value in named:
            if isinstance(value, Attribute) and self._is_list(value.variable):
                self.fail(
                    f"RETURN DISTINCT of {value.variable!r}, which is a list: lists are not compared",
                    value.at or self.draft.places["returns"],
                    f"take one value of it: LAST({value.variable}.{value.name})",
                )
        return True

    def _limit(self) -> int | None:
        self._not_with_aggregates("limit", "leave LIMIT out, and take the first rows of the table")
        return self.draft.limit

    def _not_with_aggregates(self, clause: str, advice: str) -> None:
        if clause in self.draft.places and "aggregates" in self.draft.places:
            self.fail(f"{CLAUSES[clause]} and AGG do not go together", self.draft.places[clause], advice)

    def _check_lists(self, value: Value) -> None:
        """A list is returned as it is: what would be calculated with it is not one value."""
        for leaf in () if isinstance(value, Attribute) else mentions.by_event(value):
            if self._is_list(leaf.variable) and not mentions.named_before(value):
                self.fail(
                    f"{leaf.variable}.{leaf.name} is a list, and stands in a calculation",
                    leaf.at,
                    f"take one value of it: LAST({leaf.variable}.{leaf.name})",
                )


_COLUMNS = {"partition_by": "key", "order_by": "column"}


def _is_step(part: Part) -> bool:
    """Whether NEXT and STRICT can take it: a type, an OR of types, or anything negated."""
    return isinstance(part, Type | tree.Not) or (isinstance(part, tree.Or) and all(isinstance(p, Type) for p in part.parts))


def _may_be_absent(part: Part) -> bool:
    return isinstance(part, Type) and part.is_optional


def _first(at: Span | None) -> str:
    return f" (the first is in line {at.line}, column {at.column})" if at else ""


def _is_count(value: Value) -> TypeGuard[Attribute]:
    """Whether it is an aggregate of matches without its parentheses: COUNT."""
    if not isinstance(value, Attribute) or value.variable is not None:
        return False
    function = AGGREGATES.get(value.name.upper())
    return function is not None and not function.takes
