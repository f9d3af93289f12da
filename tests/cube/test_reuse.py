"""Matches that are taken over from another query are the matches of the query: every way of reuse against the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import counted, show
from cube.workloads import workloads
from seqube.engine.ecube.reuse import Matches, Sharing, batch_of
from seqube.events import Events
from seqube.language import parse
from seqube.plan.derivation import Derivation, Narrow, narrow, widen
from seqube.plan.ecube import Cuboid, cuboid_of
from seqube.plan.planner import plan_matches
from strategies import hierarchies, streams, table


def rows(matches: Matches, cuboid: Cuboid) -> list[dict[str, int]]:
    names = [component.variable for component in cuboid.positives]
    return [dict(zip(names, map(int, match), strict=True)) for piece in matches.pieces for match in piece.T]


def derived(
    source: str, target: str, stream: Events, hierarchy: sq.Hierarchy | None
) -> list[tuple[Derivation, list[dict[str, int]]]]:
    """The target's matches in every way there is to have them from the source's."""
    cuboids = [cuboid_of(parse(text), hierarchy) for text in (source, target)]
    if not all(isinstance(cuboid, Cuboid) for cuboid in cuboids):
        return []
    upper, lower = cuboids
    assert isinstance(upper, Cuboid)
    assert isinstance(lower, Cuboid)
    found = []
    down = narrow(upper, lower)
    for derivation in [*([(down,)] if down else []), *widen(upper, lower)]:
        computed = Sharing(batch_of(parse(source), stream)).compute(plan_matches(parse(source), hierarchy))
        matches = Sharing(batch_of(parse(target), stream)).derive(derivation, computed)
        found.append((derivation, rows(matches, lower)))
    return found


@given(data=st.data(), tree=hierarchies(), events=streams(), is_counted=st.booleans())
def test_every_reuse_in_a_workload(data: st.DataObject, tree: Any, events: list[oracle.Event], is_counted: bool) -> None:
    texts = data.draw(workloads(tree, counted=is_counted))
    show("\n".join(texts.values()), events, tree)
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    stream = Events(table(events))
    expected = {name: counted(oracle.matches(parse(text), events, tree)) for name, text in texts.items()}
    for source in texts:
        for target in texts:
            if source != target:
                for derivation, found in derived(texts[source], texts[target], stream, hierarchy):
                    note(f"{target} from {source}: {[type(step).__name__ for step in derivation]}")
                    assert counted(found) == expected[target]


TREE = {"P": {"P1": ["A", "B"], "C": []}, "Q": ["D", "E"]}
HIERARCHY = sq.Hierarchy.from_dict(TREE)

# coarser, finer, and whether it can be reused downwards and upwards
WAYS = [
    ("SEQ(A, D)", "SEQ(A, C, D)", True, True),  # 5.1 and 5.4: between
    ("SEQ(A, D)", "SEQ(A, D, C)", True, True),  # at the end
    ("SEQ(A, D)", "SEQ(C, A, D)", True, True),  # at the beginning
    ("SEQ(A)", "SEQ(C, A, D)", True, True),  # on both sides
    ("SEQ(A, D)", "SEQ(A, C, B, D)", True, True),  # two in one place
    ("SEQ(A, D, E)", "SEQ(A, C, D, B, E)", True, True),  # in two places
    ("SEQ(A, D)", "SEQ(A, !C, B, D)", True, True),  # with a negation inside what is put in
    ("SEQ(A, D)", "SEQ(A, !C, D)", True, True),  # negative differences
    ("SEQ(A, D)", "SEQ(!C, A, D)", True, True),
    ("SEQ(A, D)", "SEQ(A, D, !C)", True, True),
    ("SEQ(A, !B, D, E)", "SEQ(A, !P, D, !C, E)", True, True),
    ("SEQ(P, Q)", "SEQ(A, Q)", True, True),  # 5.2 and 5.5
    ("SEQ(P, Q, P)", "SEQ(A, D, P1)", True, True),
    ("SEQ(A, !B, D)", "SEQ(A, !P1, D)", True, True),  # negated concepts
    ("SEQ(P, Q)", "SEQ(A, C, D)", True, True),  # 5.3 and 5.6
    ("SEQ(P, !B, Q)", "SEQ(A, !P, D, E)", True, True),
    ("SEQ(A a, D d, [id])", "SEQ(A a, C c, D d, [id])", True, True),
    ("SEQ(A a, D d, a.id = d.id)", "SEQ(A x, C c, D y, x.id = c.id = y.id)", True, True),
    ("SEQ(A a, !B b, D d, [id])", "SEQ(A a, !B b, D d, E e, [id])", True, True),
    ("SEQ(A a, D d)", "SEQ(A a, C c, D d, c.x > 1)", True, True),
    ("SEQ(A a, D d)", "SEQ(A a, C c, D d, c.x > a.x)", True, True),
    ("SEQ(A a, D d)", "SEQ(A a, D d, a.x > 1)", True, False),  # a slice: nothing says what it left out
    ("SEQ(A a, D d, a.x > 1)", "SEQ(A a, C c, D d)", False, False),  # the coarser one asks for more
    ("SEQ(A, !B, D)", "SEQ(A, !B, C, D)", False, False),  # the scope of !B is another
    ("SEQ(A, D, !B)", "SEQ(A, D, C, !B)", False, False),
    ("SEQ(A a, D d)", "SEQ(A a, !B b, D d, b.id = a.id)", False, False),  # a negation tied to the match
    ("SEQ(A a, D d)", "SEQ(A a, !B b, D d, a.x BETWEEN 1 AND b.x)", False, False),  # by a predicate that is not to be split
    ("SEQ(A a, D d, a.x >= 1)", "SEQ(A a, !B b, D d, a.x BETWEEN 1 AND b.x)", False, False),
    ("SEQ(A a, D d)", "SEQ(A a, C c, !B b, D d, NOT (a.x < 1 OR b.x < 1))", False, True),
    ("SEQ(A a, !B b, D d, a.x BETWEEN 1 AND b.x)", "SEQ(A a, !B b, D d, E e, a.x BETWEEN 1 AND b.x)", True, True),
    ("SEQ(A a, !B b, D d, b.x BETWEEN 1 AND 3)", "SEQ(A a, !B b, D d, E e, b.x BETWEEN 1 AND 3)", True, True),
]


@pytest.mark.parametrize(("coarse", "fine", "down", "up"), WAYS)
@pytest.mark.parametrize("window", ["6", "6 EVENTS"])
def test_ways_of_reuse(coarse: str, fine: str, down: bool, up: bool, window: str) -> None:
    coarse, fine = (f"{text} WITHIN {window}" for text in (coarse, fine))
    kinds = {True: 0, False: 0}
    for seed in range(12):
        events = random_events(seed)
        stream = Events(table(events))
        for source, target in ((coarse, fine), (fine, coarse)):
            expected = counted(oracle.matches(parse(target), events, TREE))
            for derivation, found in derived(source, target, stream, HIERARCHY):
                assert counted(found) == expected
                kinds[isinstance(derivation[0], Narrow)] += 1
    assert (kinds[True] > 0, kinds[False] > 0) == (down, up)


def test_a_shorter_window_is_a_finer_query() -> None:
    events = random_events(1)
    stream = Events(table(events))
    long, short = "SEQ(P, Q) WITHIN 8", "SEQ(A, Q) WITHIN 4"
    (way,) = derived(long, short, stream, HIERARCHY)
    assert counted(way[1]) == counted(oracle.matches(parse(short), events, TREE))
    assert not derived(short, long, stream, HIERARCHY)
    assert not derived("SEQ(P, Q) WITHIN 8 EVENTS", short, stream, HIERARCHY)
    assert not derived("SEQ(P, Q) PARTITION BY id WITHIN 8", short, stream, HIERARCHY)


def test_concepts_upwards_hand_pieces_on_without_a_copy() -> None:
    stream = Events(table(random_events(2)))
    fine, coarse = (cuboid_of(parse(f"{text} WITHIN 8"), HIERARCHY) for text in ("SEQ(A, D)", "SEQ(P, Q)"))
    assert isinstance(fine, Cuboid)
    assert isinstance(coarse, Cuboid)
    sharing = Sharing(batch_of(fine.query, stream))
    source = sharing.compute(plan_matches(fine.query, HIERARCHY))
    assert len(source)
    (way,) = widen(fine, coarse)
    assert sharing.derive(way, source).pieces[0] is source.pieces[0]


def random_events(seed: int) -> list[oracle.Event]:
    from random import Random

    random = Random(seed)
    events = [
        (random.choice("AABCDDE"), random.randint(0, 14), {"id": random.choice([0, 0, 1, None]), "x": random.choice([0, 1, 2, 3])})
        for _ in range(24)
    ]
    return oracle.stream(*events)
