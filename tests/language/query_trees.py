"""Random bound queries, straight as trees: every node, every kind of name, every clause, obeying the binding rules by construction.

The path of a variable is the Nots around it; a predicate picks one variable first and then only others whose paths lie along
the same line, as the language asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from seqube.language import tree
from seqube.language.functions import AGGREGATES, OF_LISTS
from seqube.language.mentions import leaves
from seqube.language.names import column_name, group_name
from seqube.language.tree import Attribute, Emit, Output, Predicate, Query, Skip, Value, Window

# fmt: off
KEYWORDS = [
    "SEQ", "and", "Or", "NOT", "in", "between", "IS", "null", "TRUE", "false", "pattern", "WHERE", "partition", "Group",
    "GROUPBY", "by", "agg", "having", "within", "emit", "on", "trigger", "every", "total", "return", "as", "count", "SUM", "avg",
    "min", "max", "events", "s", "m", "h", "next", "STRICT", "order", "skip", "Keep", "partial", "past", "to", "first",
    "LAST", "prev", "limit", "DISTINCT", "at", "Leaf",
]
# fmt: on
odd_text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
names = st.sampled_from(["A", "B", "price", "é", "x_1", "start"]) | st.sampled_from(KEYWORDS) | odd_text
int64 = st.integers(-(2**63), 2**63 - 1)
strings = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-5, 5) | int64 | st.floats(allow_nan=False, allow_infinity=False)
parameters = st.builds(tree.Parameter, st.sampled_from(["p", "Q_1"]))
literals = st.builds(tree.Literal, numbers | strings | st.booleans() | st.none()) | parameters

Visible = list[tuple[str, tuple[int, ...]]]


@dataclass
class Builder:
    """One query in the making; `fresh` variables are those not used yet."""

    draw: st.DrawFn
    fresh: list[str]
    n_negations: int = 0
    in_condition: bool = True
    repeated: list[str] = field(default_factory=list)  # the variables of parts with a quantifier
    lists: list[str] = field(default_factory=list)  # those of them that stand for a list

    def flip(self) -> bool:
        return self.draw(st.booleans())

    # ---- patterns

    def leaf(self, kind: type[tree.Composite] | None = None) -> tree.Type:
        """A type; one that is a positive part of such an operator may be repeated."""
        variable = self.fresh.pop()
        quantifier = None
        if kind in (tree.Seq, tree.Next, tree.Strict) and self.draw(st.integers(0, 3)) == 0:
            least = self.draw(st.integers(0, 3))
            most = self.draw(st.none() | st.integers(max(least, 1), 5))
            quantifier = tree.Quantifier(least, most, kind is not tree.Seq and self.flip())
            self.repeated.append(variable)
            self.lists += [variable] * quantifier.is_list
        return tree.Type(variable if self.flip() else self.draw(names), variable, quantifier)

    def pattern(self, depth: int, visible: Visible, path: tuple[int, ...]) -> tuple[tree.Pattern, Visible]:
        """A pattern, and the positive variables in it."""
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            leaf = self.leaf()
            return leaf, [(leaf.variable or "", path)]
        kind = self.draw(st.sampled_from([tree.Seq, tree.Next, tree.Strict, tree.And, tree.Or]))
        signs = [*self.draw(st.lists(st.booleans(), max_size=3)), True]
        if kind is tree.Or:
            signs = [True] * len(signs)
        # The operator's own variables are known only when its components are made, so leaves come first.
        shapes = []
        own: Visible = []
        for positive in signs:
            inner_path = path
            if not positive:
                self.n_negations += 1
                inner_path = (*path, self.n_negations)
            run = kind in (tree.Next, tree.Strict)
            leaf = self.leaf(kind if positive else None) if self.flip() or (run and positive) else None
            if leaf is not None:
                own.append((leaf.variable or "", inner_path))
            shapes.append((positive, inner_path, leaf))
        seen = [*visible, *own]
        parts: list[tree.Part] = []
        inside: Visible = []
        for positive, inner_path, leaf in shapes:
            part: tree.Pattern
            if leaf is not None:
                part, found = leaf, [(leaf.variable or "", inner_path)]
            else:
                part, found = self.pattern(depth - 1, seen, inner_path)
            if positive:
                inside += found
            parts.append(part if positive else tree.Not(part))
        where = self.predicates(seen, path) if self.flip() else ()
        return kind(tuple(parts), where), inside  # type: ignore[arg-type]

    # ---- predicates

    def predicates(self, visible: Visible, path: tuple[int, ...]) -> tuple[Predicate, ...]:
        return tuple(self.conjunct(visible, path) for _ in range(self.draw(st.integers(1, 3))))

    def conjunct(self, visible: Visible, path: tuple[int, ...]) -> Predicate:
        if self.draw(st.integers(0, 5)) == 0:
            return tree.Same(self.draw(names))
        focus = self.draw(
            st.sampled_from([line for _, line in visible if line[: len(path)] == path or path[: len(line)] == line] or [path])
        )
        line = max(focus, path, key=len)
        usable = [name for name, other in visible if line[: len(other)] == other]
        return self.predicate(usable, 2, top=True)

    def predicate(self, usable: list[str], depth: int, top: bool = False) -> Predicate:
        choice = self.draw(st.integers(0, 8 if depth else 5))
        if choice == 0:
            return tree.Comparison(
                self.draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="])), self.value(usable, 2), self.value(usable, 2)
            )
        if choice == 1:
            return tree.Comparison("=", self.attribute(usable), self.draw(literals))
        if choice == 2:
            return tree.Among(self.attribute(usable), tuple(self.draw(st.lists(literals, min_size=1, max_size=4))), self.flip())
        if choice == 3:
            return tree.Between(self.value(usable, 1), self.value(usable, 1), self.value(usable, 1), self.flip())
        if choice == 4 and self.flip():
            name, pattern = self.draw(st.sampled_from(["LIKE", "RLIKE", "IS DISTINCT FROM"])), tree.Literal(self.draw(strings))
            return tree.IsTrue(tree.Call(name, (self.attribute(usable), pattern)))
        if choice == 4:
            return tree.IsNull(self.value(usable, 1), self.flip())
        if choice == 5:
            return tree.IsTrue(self.attribute(usable) if usable else tree.Literal(self.flip()))
        if choice == 6:
            return tree.Inverse(self.predicate(usable, depth - 1))
        parts = tuple(self.predicate(usable, depth - 1) for _ in range(self.draw(st.integers(2, 3))))
        return tree.AnyOf(parts) if choice == 7 or top else tree.AllOf(parts)

    def attribute(self, usable: list[str]) -> Value:
        if not usable:
            return tree.Literal(None)
        named = Attribute(self.draw(st.sampled_from(usable)), self.draw(names))
        of_any_kind = [name for name, function in OF_LISTS.items() if function.result is None]
        return self.of_list(named, of_any_kind) if named.variable in self.repeated and self.flip() else named

    def of_list(self, named: Attribute, functions: Sequence[str] = tuple(OF_LISTS)) -> Value:
        """A value of the list that a variable stands for."""
        function = self.draw(st.sampled_from(functions))
        return tree.OfList(function, Attribute(named.variable, "ts") if OF_LISTS[function].of_events else named)

    def value(self, usable: list[str], depth: int) -> Value:
        choice = self.draw(st.integers(0, 6 if depth else 2))
        before = [name for name in usable if name in self.lists]
        if self.in_condition and before and self.draw(st.integers(0, 3)) == 0:
            return tree.Prev(Attribute(self.draw(st.sampled_from(before)), self.draw(names)))
        if choice == 6:
            return self.call(usable, depth - 1)
        if choice == 0:
            return tree.Literal(self.draw(numbers))
        if choice == 1:
            return self.attribute(usable)
        if choice == 2:
            return tree.Duration(
                self.draw(st.integers(-(2**63) + 1, 2**63 - 1) | st.sampled_from([0, 3_600_000_000, 172_800_000_000, -60_000_000]))
            )
        if choice == 3:
            operand = self.value(usable, depth - 1)
            return operand if isinstance(operand, (tree.Literal, tree.Duration)) else tree.Minus(operand)
        return tree.Arithmetic(
            self.draw(st.sampled_from(["+", "-", "*", "/", "%"])), self.value(usable, depth - 1), self.value(usable, depth - 1)
        )

    def call(self, usable: list[str], depth: int) -> Value:
        """A function of values that may be anything, and itself is."""
        one, other = self.attribute(usable), self.attribute(usable)
        choices: list[Value] = [
            tree.Call("ABS", (one,)),
            tree.Call("COALESCE", (one, other, tree.Literal(None))),
            tree.Call("ROUND", (self.value(usable, depth), tree.Literal(2))),
            tree.Call("CASE", (tree.Condition(self.predicate(usable, depth)), one, tree.Literal(None))),
            tree.Call("CASE", (one, other, tree.Condition(tree.IsNull(one)), other, one)),
            tree.Call("CAST", (one, tree.Literal("DECIMAL(10, 2)"))),
            tree.Call("EXTRACT", (tree.Literal("HOUR"), tree.Call("DATE_TRUNC", (tree.Literal("day"), one)))),
        ]
        if usable:
            choices.append(tree.Call("LENGTH", (tree.Call("CONCAT", (one, tree.Literal("'"), other)),)))
        found = self.draw(st.sampled_from(choices))
        nested = isinstance(found, tree.Call) and any(
            isinstance(argument, tree.Condition) and isinstance(argument.predicate, tree.IsTrue) for argument in found.arguments
        )
        return one if nested else found  # a value that is true needs no condition around it

    # ---- clauses

    def window(self, units: tuple[str, ...]) -> Window:
        length = self.draw(st.integers(1, 2**63 - 1) | st.sampled_from([1, 1_000, 60_000_000, 3_600_000_000, 86_400_000_000]))
        return Window(length, self.draw(st.sampled_from(units)))  # type: ignore[arg-type]

    def outputs(self, values: list[Value], taken: set[str]) -> tuple[Output, ...]:
        outputs = []
        for position, value in enumerate(values, 1):
            name = column_name(value, position)
            while name in taken or self.draw(st.integers(0, 3)) == 0:
                name = self.draw(names) + "_" * self.draw(st.integers(0, 3))
            taken.add(name)
            outputs.append(Output(value, name))
        return tuple(outputs)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """A bound query with any clauses."""
    variables = draw(st.lists(names.filter(lambda name: name not in ("start", "end")), min_size=70, max_size=70, unique=True))
    builder = Builder(draw, variables)
    pattern, positive = builder.pattern(draw(st.integers(0, 3)), [], ())
    own = [] if isinstance(pattern, tree.Type) else [part for part in pattern.parts if isinstance(part, tree.Type)]
    usable = [name for name, _ in positive]
    seen: Visible = list(dict.fromkeys([*positive, *((part.variable or "", ()) for part in own)]))
    where = builder.predicates(seen, ()) if builder.flip() else ()
    keys = tuple(draw(st.lists(names, min_size=1, max_size=2, unique=True)))
    order = tuple(draw(st.lists(names, max_size=2, unique=True)))
    skip = draw(
        st.sampled_from([None, None, Skip("PAST LAST"), Skip("TO NEXT"), Skip("TO FIRST", usable[0]), Skip("TO LAST", usable[-1])])
    )
    builder.in_condition = False

    def grouped() -> Attribute:
        if keys and builder.flip():
            return Attribute(None, draw(st.sampled_from(keys)))
        single = [name for name in usable if name not in builder.lists]
        return Attribute(draw(st.sampled_from(single)), draw(names)) if single else Attribute(None, draw(st.sampled_from(keys)))

    def returned() -> Value:
        whole = [name for name in usable if name in builder.lists]
        if whole and builder.flip():  # a list is returned as it is, or one value of it
            named = Attribute(draw(st.sampled_from(whole)), draw(names))
            return named if builder.flip() else builder.of_list(named)
        return grouped() if builder.flip() else builder.value([name for name in usable if name not in whole], 2)

    query = Query(pattern, builder.window(("us", "ticks", "events")), where, keys, order_by=order, skip=skip)
    shape = draw(st.sampled_from(["matches", "returns", "aggregates"]))
    if shape == "returns":
        values = [returned() for _ in range(draw(st.integers(1, 3)))]
        partial = isinstance(pattern, tree.Next) and skip is None and _begins_surely(pattern) and builder.flip()
        outputs = builder.outputs(values, {"reached", "end"} if partial else set())
        limit = draw(st.none() | st.integers(0, 2**63 - 1))
        distinct = builder.flip() and not any(isinstance(value, Attribute) and value.variable in builder.lists for value in values)
        return replace(query, returns=outputs, keeps_partial=partial, is_distinct=distinct, limit=limit)
    if shape == "matches":
        return replace(query, returns_all=builder.flip())
    when = draw(st.sampled_from(["trigger", "every", "total"]))
    emit = Emit(when, builder.window(("us", "ticks")) if when == "every" else None)
    taken = set() if when == "total" else {"ts"}
    groups: list[Value] = []
    parts = {name for part in leaves(pattern) for name in (part.name, part.variable)}
    for named in (grouped() for _ in range(draw(st.integers(0, 2)))):
        leveled = named.variable is not None and builder.flip()
        key = tree.AtLevel(replace(named, name=tree.TYPE_ATTRIBUTE), draw(st.integers(1, 9))) if leveled else named
        means_a_part = named.variable is None and named.name in parts  # too, and is refused
        if group_name(key, 0) not in taken and not means_a_part:
            taken.add(group_name(key, 0))
            groups.append(key)

    def aggregate() -> tree.Aggregate:
        function = draw(st.sampled_from(list(AGGREGATES)))
        attribute = Attribute(draw(st.sampled_from(usable)), draw(names))
        share = tree.Literal(draw(st.sampled_from([0, 0.25, 1]))) if AGGREGATES[function].takes_share else None
        return tree.Aggregate(function, attribute if AGGREGATES[function].takes else None, share=share)

    aggregates = builder.outputs([aggregate() for _ in range(draw(st.integers(1, 3)))], taken)
    having = tuple(
        tree.Comparison(">", aggregate(), draw(st.builds(tree.Literal, numbers))) for _ in range(draw(st.integers(0, 2)))
    )
    return replace(query, group_by=tuple(groups), aggregates=aggregates, having=having, emit=emit)


def _begins_surely(pattern: tree.Next) -> bool:
    """Whether some part stands before every negation: KEEP PARTIAL asks for it."""
    first = pattern.parts[0]
    return not isinstance(first, tree.Not) and not (isinstance(first, tree.Type) and first.is_optional)
