"""Where one instance of a negated part stands for all: the one that starts latest, or ends earliest.

What cancels a match lies in a scope; of the instances that end with an event, the one that starts latest lies in every scope that
another of them lies in. That holds where nothing but order and keys joins the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqube.events.schema import ANY
from seqube.language.mentions import attributes
from seqube.language.tree import Value
from seqube.plan.physical import Atom, Clause, MatchConjunction, MatchSequence, PlanNode, Scan, scans


def slots_of(clause: Clause) -> set[int]:
    return {slot for atom in clause for slot in ((atom.left_slot, atom.right_slot) if isinstance(atom, Atom) else (atom.slot,))}


def latest_tells(node: MatchSequence | MatchConjunction, tied: Sequence[Value], at_first: bool = False) -> bool:
    """Whether the latest start tells all: events in order or apart, joined by nothing but keys, tied by a key or the last event.

    Seen the other way round, whether the earliest end does: tied by a key or the first event.
    """
    edge = node.slots[0 if at_first else -1]
    return (
        all(isinstance(slot, Scan) for slot in node.slots)
        and not node.filters
        and all(len(slots_of(clause)) == 1 for clause in node.clauses)
        and (isinstance(node, MatchSequence) or not may_share(node.slots))
        and all(
            any(value in column for column in node.key)
            or (isinstance(node, MatchSequence) and {a.variable for a in attributes(value)} == {*edge.binds})
            for value in tied
        )
    )


def may_share(nodes: Sequence[PlanNode]) -> bool:
    """Whether two slots can hold the same event."""
    types = [frozenset().union(*(scan.types for scan in scans(node) if scan.variable in node.binds)) for node in nodes]
    return any(types[i] & types[j] or ANY in types[i] | types[j] for i in range(len(types)) for j in range(i))
