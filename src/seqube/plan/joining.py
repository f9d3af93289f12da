"""What ties slots to each other: predicates over several of them as key columns, clauses of a loop, or filters.

A clause is a disjunction of tests, each of which has one slot on either side (or is about one slot alone), so that a loop asks it
with two look-ups. Equalities that reach every slot are a key: events are sorted by it, and no loop asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seqube.language.mentions import variables_of
from seqube.language.tree import AnyOf, Comparison, Predicate, Value
from seqube.plan.pairs import equal_values
from seqube.plan.physical import Atom, Clause, Guarded, KeyColumn, LocalAtom


def join_conditions(
    predicates: Iterable[Guarded], names: list[frozenset[str]]
) -> tuple[tuple[KeyColumn, ...], tuple[Clause, ...], tuple[Guarded, ...]]:
    """Predicates over several slots as key columns, loop clauses, and filters for what neither can hold."""
    slot_of = {name: i for i, slot_names in enumerate(names) for name in slot_names}
    clauses: list[Clause] = []
    filters: list[Guarded] = []
    for guarded in predicates:
        clause = None if guarded.when else as_clause(guarded.predicate, slot_of)
        if clause is None:
            filters.append(guarded)
        else:
            clauses.append(clause)
    key = _key_columns([clause[0] for clause in clauses if _is_equality(clause)], len(names))  # type: ignore[misc]
    implied = {(slot, value) for column in key for slot, value in enumerate(column)}
    rest = [clause for clause in clauses if not (_is_equality(clause) and _sides(clause[0]) <= implied)]  # type: ignore[arg-type]
    return key, tuple(rest), tuple(filters)


def as_clause(predicate: Predicate, slot_of: Mapping[str, int]) -> Clause | None:
    """A disjunction of tests, each with sides that belong to one slot; None if it is not of that form."""
    atoms: list[Atom | LocalAtom] = []
    for part in predicate.parts if isinstance(predicate, AnyOf) else (predicate,):
        slots = {slot_of[name] for name in variables_of(part)}
        if len(slots) == 1:
            atoms.append(LocalAtom(slots.pop(), part))
        elif isinstance(part, Comparison):
            left = {slot_of[name] for name in variables_of(part.left)}
            right = {slot_of[name] for name in variables_of(part.right)}
            if len(left) != 1 or len(right) != 1:
                return None
            atoms.append(Atom(part.op, left.pop(), part.left, right.pop(), part.right))
        else:
            return None
    return tuple(atoms)


def _is_equality(clause: Clause) -> bool:
    return len(clause) == 1 and isinstance(clause[0], Atom) and clause[0].op == "="


def _sides(atom: Atom) -> set[tuple[int, Value]]:
    return {(atom.left_slot, atom.left), (atom.right_slot, atom.right)}


def _key_columns(equalities: list[Atom], n_slots: int) -> tuple[KeyColumn, ...]:
    """Chains of equalities that reach every slot, each as one value per slot."""
    classes = [by_slot for by_slot in equal_values(equalities) if len(by_slot) == n_slots]
    return tuple(tuple(by_slot[slot] for slot in range(n_slots)) for by_slot in classes)
