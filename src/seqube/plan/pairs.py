"""Equalities that join two parts of a sequence and no others: `a.trip = b.trip AND b.station = c.station`.

One that reaches every part is a key, by which all events are sorted. These differ from pair to pair, and are found by an index for
each pair, where that costs less than to test them in a loop over the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from seqube.language.mentions import attributes
from seqube.language.tree import Value
from seqube.plan.physical import PAIR_INDEX, Atom, Clause, MatchPlan, MatchSequence, Scan, walk


@dataclass(frozen=True, slots=True)
class Pair:
    """Two slots that agree on some values, the first one left of the second."""

    left: int
    right: int
    values: tuple[tuple[Value, Value], ...]  # of the left, and of the right
    clauses: tuple[Clause, ...]  # that say so; none where that follows from others


def pairs_of(node: MatchSequence) -> tuple[Pair, ...]:
    """The pairs of a sequence of single events, by their right slot; none where its parts are more than that."""
    if not all(isinstance(slot, Scan) for slot in node.slots):
        return ()
    found: dict[tuple[int, int], list[tuple[Value, Value]]] = {}
    clauses: dict[tuple[int, int], list[Clause]] = {}
    atoms = [(clause[0], clause) for clause in node.clauses if len(clause) == 1]
    equalities = [(atom, clause) for atom, clause in atoms if isinstance(atom, Atom) and atom.op == "="]
    for atom, clause in equalities:
        sides = sorted(((atom.left_slot, atom.left), (atom.right_slot, atom.right)), key=lambda side: side[0])
        place = sides[1][0], sides[0][0]
        found.setdefault(place, []).append((sides[0][1], sides[1][1]))
        clauses.setdefault(place, []).append(clause)
    for by_slot in equal_values([atom for atom, _ in equalities]):  # a.x = b.x AND a.x = c.x: so b.x = c.x
        for left, right in pairwise(sorted(by_slot)):
            found.setdefault((right, left), [(by_slot[left], by_slot[right])])
    return tuple(
        Pair(left, right, tuple(values), tuple(clauses.get((right, left), ()))) for (right, left), values in sorted(found.items())
    )


def equal_values(equalities: Iterable[Atom]) -> list[dict[int, Value]]:
    """What equalities make the same, each as a value for every slot that it reaches."""
    classes: list[list[tuple[int, Value]]] = []
    for atom in equalities:
        joined = [(atom.left_slot, atom.left), (atom.right_slot, atom.right)]
        touching = [members for members in classes if any(side in members for side in joined)]
        merged = [side for members in touching for side in members]
        merged += [side for side in joined if side not in merged]
        classes = [members for members in classes if members not in touching] + [merged]
    return [dict(reversed(members)) for members in classes]


def pairs_to_index(node: MatchSequence, strategy: str | None) -> tuple[Pair, ...]:
    """The pairs that are found by an index: all, unless it is known that a loop costs less."""
    return pairs_of(node) if strategy in (None, PAIR_INDEX) else ()


def agreed(plan: MatchPlan) -> set[str]:
    """The attributes that partitions, keys and pairs agree on: how many values they have tells how many events find each other."""
    sequences = [node for node in walk(plan) if isinstance(node, MatchSequence)]
    values = [value for node in sequences for pair in pairs_of(node) for values in pair.values for value in values]
    values += [value for node in sequences for column in node.key for value in column]
    return {attribute.name for value in values for attribute in attributes(value)} | set(plan.partition_by)


def indexed(pairs: tuple[Pair, ...]) -> dict[int, Pair]:
    """The pair by which the events of each slot are looked up, once those of later slots are chosen: that of the nearest one."""
    found: dict[int, Pair] = {}
    for pair in pairs:  # by their right slot
        found.setdefault(pair.left, pair)
    return found
