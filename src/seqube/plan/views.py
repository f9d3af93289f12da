"""How nested sub-queries are evaluated: which strategies there are, where each applies, what each costs.

`latest-start` (and, for positive sub-queries, building them once) is what the matcher does by itself on a flattened plan. The
published strategies `iterative`, `aggressive`, `passive` and `balanced` need the tree as it was written (`nested_root`) and
predicates that a loop can test on single events (`clauses`); `plan_nested` gives such a plan, with one way per sub-query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from seqube.errors import PlanError
from seqube.events import Statistics
from seqube.language.tree import (
    AllOf,
    AnyOf,
    Comparison,
    ComparisonOp,
    FirstOf,
    Pattern,
    Predicate,
    Query,
    Seq,
    Type,
    Value,
    attributes,
)
from seqube.language.writer import write_predicate
from seqube.plan.physical import Absence, Atom, MatchAlternatives, MatchPlan, MatchSequence, Node, Scan, Way
from seqube.plan.rewrite import conjuncts, spread_same

LOOPS = ("iterative", "aggressive", "passive", "balanced")
STRATEGIES = (*LOOPS, "latest-start")


def nested_root(query: Query) -> Pattern:
    """The pattern with WHERE at its root and `[id]` spread, its operators nested as they were written."""
    pattern = query.pattern
    if isinstance(pattern, Type):
        pattern = Seq((pattern,))
    return spread_same(replace(pattern, where=pattern.where + query.where))


# ---------------------------------------------------------------- predicates that loops can test


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison whose sides name one variable each (or several, one of which is bound); without `op`, a predicate on one."""

    op: ComparisonOp | None
    left: tuple[Value, ...]
    right: tuple[Value, ...]
    predicate: Predicate


Tests = tuple[Test, ...]  # true when any of them is


def clauses(predicate: Predicate) -> list[Tests] | None:
    """The predicate as a conjunction of disjunctions of tests; None where a test would have to compute with several events."""
    found: list[Tests] = []
    for conjunct in conjuncts(predicate):
        for parts in _distribute(conjunct):
            tests = [_test(part) for part in parts]
            if any(test is None for test in tests):
                return None
            found.append(tuple(test for test in tests if test is not None))
    return found


def _distribute(predicate: Predicate) -> Iterator[tuple[Predicate, ...]]:
    """(a AND b) OR c as (a OR c) AND (b OR c); SQL's three-valued logic distributes like this too."""
    if isinstance(predicate, AllOf):
        for part in predicate.parts:
            yield from _distribute(part)
    elif isinstance(predicate, AnyOf):
        products: list[tuple[Predicate, ...]] = [()]
        for part in predicate.parts:
            products = [product + more for product in products for more in _distribute(part)]
        yield from products
    else:
        yield (predicate,)


def _test(predicate: Predicate) -> Test | None:
    if len({attribute.variable for attribute in attributes(predicate)}) < 2:
        return Test(None, (), (), predicate)
    if not isinstance(predicate, Comparison):
        return None
    left, right = _choices(predicate.left), _choices(predicate.right)
    if left is None or right is None:
        return None
    return Test(predicate.op, left, right, predicate)


def _choices(value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, FirstOf):
        inner = [_choices(part) for part in value.values]
        return None if any(part is None for part in inner) else tuple(v for part in inner if part for v in part)
    return (value,) if len({attribute.variable for attribute in attributes(value)}) < 2 else None


def variable_of(value: Value | Predicate) -> str | None:
    """The one variable that a side of a test names; None for a constant."""
    return next((attribute.variable for attribute in attributes(value)), None)


# ---------------------------------------------------------------- sub-queries


def subqueries(plan: MatchPlan) -> Iterator[Node]:
    """Every expression nested in the plan's pattern or negated in it, save single events; each before what is inside it."""
    yield from _below(plan.pattern)
    for check in plan.checks:
        yield from _negated(check)


def _below(node: Node) -> Iterator[Node]:
    if isinstance(node, Scan):
        return
    for child in node.branches if isinstance(node, MatchAlternatives) else node.slots:
        if not isinstance(child, Scan):
            yield child
        yield from _below(child)
    if isinstance(node, MatchSequence):
        for gap in node.gaps:
            if not isinstance(gap.instance, Scan):
                yield gap.instance
            yield from _below(gap.instance)


def _negated(absence: Absence) -> Iterator[Node]:
    if not isinstance(absence.instance, Scan):
        yield absence.instance
    yield from _below(absence.instance)
    for check in absence.checks:
        yield from _negated(check)


def _refused(plan: MatchPlan) -> Predicate | None:
    """A predicate that belongs to a negation and that no loop can test."""
    negated = [node for check in plan.checks for node in (check.instance, *_negated(check))]
    negated += [node for gap in _gaps(plan.pattern) for node in (gap, *_below(gap))]
    predicates = [predicate for node in negated for predicate in _predicates(node)]
    predicates += [guarded.predicate for check in _all_checks(plan.checks) for guarded in check.filters]
    predicates += [Comparison("=", link.inner, link.outer) for check in _all_checks(plan.checks) for link in check.links]
    return next((predicate for predicate in predicates if clauses(predicate) is None), None)


def _all_checks(checks: Iterable[Absence]) -> Iterator[Absence]:
    for check in checks:
        yield check
        yield from _all_checks(check.checks)


def _gaps(node: Node) -> Iterator[Node]:
    """What must not be there, anywhere below a positive node."""
    if isinstance(node, Scan):
        return
    if isinstance(node, MatchSequence):
        yield from (gap.instance for gap in node.gaps)
    for child in node.branches if isinstance(node, MatchAlternatives) else node.slots:
        yield from _gaps(child)


def _predicates(node: Node) -> Iterator[Predicate]:
    """The predicates of a node that are not on single events; equalities of keys."""
    if isinstance(node, Scan):
        return
    yield from (guarded.predicate for guarded in node.filters)
    if isinstance(node, MatchAlternatives):
        return
    for clause in node.clauses:
        yield from (Comparison(a.op, a.left, a.right) if isinstance(a, Atom) else a.predicate for a in clause)
    for column in node.key:
        yield from (Comparison("=", a, b) for a, b in pairwise(column))
    if isinstance(node, MatchSequence):
        for gap in node.gaps:
            yield from (Comparison("=", a, column[0]) for a, column in zip(gap.key or (), node.key, strict=False))


# ---------------------------------------------------------------- choosing


def choose_ways(
    flat: MatchPlan, make_nested: Callable[[], MatchPlan], strategy: str, statistics: Statistics | None, unit: str
) -> MatchPlan:
    """The flat plan where the matcher's own way is asked for or cheapest, else the nested one with a way for every sub-query."""
    if strategy == "auto":
        return flat
    if strategy == "latest-start":
        if any(check.filters or check.checks for check in flat.checks):
            raise PlanError(
                "strategy 'latest-start' does not apply: a negation is tied to outer events by more than equalities\n"
                f"  hint: one of {', '.join(('auto', *_loops_for(make_nested())))}"
            )
        return flat
    nested = make_nested()
    if (refused := _refused(nested)) is not None:
        raise PlanError(
            f"strategy {strategy!r} does not apply: {write_predicate(refused)}, under a negation, computes with several events\n"
            "  hint: auto does"
        )
    found = tuple(subqueries(nested))
    return replace(nested, ways=tuple(Way(node, strategy) for node in found) or (Way(nested.pattern, strategy),))


def _loops_for(nested: MatchPlan) -> tuple[str, ...]:
    return LOOPS if _refused(nested) is None else ()
