"""The linear maps of a chain: what an event adds to which counter, for parts that come once, several times, or not at all.

A state counts the ways to come so far. Those of a chain of single events are the prefixes of A-Seq, 0 (nothing yet) to n (a match).
A repeated part has a state for every number of events that matters, an unbounded one a state that adds itself to itself:

    SEQ(A, B+, C)    0 --A--> 1 --B--> 2 --C--> 3        an event of B:  n2 := 2 n2 + n1
                                      (B)
    B{2,3}           in the list: 1, 2 events; from 2 and 3 on, what comes next may follow
    B*, B?           what follows B also follows what came before it

A negated event sets to zero what waits across its place. Where a part may be absent, what waits for the next part and what waits
for the one behind it wait across different places: a state for each set of negations crossed.

What is measured of the events of a list (SUM(b.x)) is added up over pairs of a match and one event of its list, the marked one: a
second layer of states counts the ways in which the mark is set, and the map that sets it has the event's weight. An event that
every match has once needs no layer: all its maps are weighted.

A map is a list of steps, `to` += weight x `source`, in an order in which no step sees what another one of its map wrote; without a
source, `to` is set to zero. Events of one time do not see each other either. A part that takes several events can be met by tied
ones, which add to a copy of its states (`tied`), and are added up when all of them have come (`settled`).

Cost: the steps of a map are as many as the states of its part, and the layers they are in.
Invariant: state 0 is the start, which no step changes but a leading negation; the last ones are final, which no step reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from seqube.engine.predicates import Ints, Mask
from seqube.plan.chains import EventChain, Times

_Slot = TypeVar("_Slot", int, Ints)

_START = ("start",)
_State = tuple[object, ...]  # a kind, and what tells it apart from others of its kind
_Step = tuple[_State, _State | None, bool]  # to, source (None: zero), whether it is weighted


class Automaton(NamedTuple):
    """The maps of every rank. Ranks are those of `lanes`: slots and negations, then those of tied events."""

    firsts: Ints  # where the steps of each rank begin
    tos: Ints
    sources: Ints  # -1: to zero
    weighted: Mask
    before: Ints  # for every state, how many states lie up to the last from which it can be reached
    behind: Ints  # and the first that can be reached from it
    begins: Mask  # for every rank, whether its event can be the first of a match
    ends: Mask  # or the last
    changes: Mask  # or change how many matches there are
    final: int  # the first final state
    layers: Ints  # of every final state

    @property
    def n_states(self) -> int:
        return len(self.before)


def slot_rank(n_slots: int, slot: int) -> int:
    return 2 * (n_slots - 1 - slot) + 1


def gap_rank(n_slots: int, position: int) -> int:
    return 2 * (n_slots - position)


def tied_rank(n_slots: int, slot: _Slot) -> _Slot:
    """The rank of events of a slot that come with others of it."""
    return 2 * n_slots + 1 + 2 * slot


def settled_rank(n_slots: int, slot: _Slot) -> _Slot:
    """The rank of what follows them."""
    return tied_rank(n_slots, slot) + 1


def meets_itself(times: Times) -> bool:
    """Whether two events of a part can be in one match, so that they must not be of one time."""
    return times.most is None or times.most > 1


def needs_layer(chain: EventChain, variable: str) -> bool:
    """Whether the events of a variable are several in a match, or none."""
    return not chain.times_of(_slot_of(chain, variable)).is_one


def _slot_of(chain: EventChain, variable: str) -> int:
    return [slot.variable for slot in chain.slots].index(variable)


def automaton(chain: EventChain, marked: Sequence[str] = (), counts: bool = True, ties: bool = True) -> Automaton:
    """The maps of a chain: its count, if that is asked for, and a layer for each of the `marked` variables, in this order."""
    return _Drawing(chain, [_slot_of(chain, variable) for variable in marked], ties).automaton(counts)


class _Drawing:
    """The states of a chain by name. Layer -1 has no mark; layer k is that of the k-th marked slot, from which on it exists."""

    def __init__(self, chain: EventChain, marked: Sequence[int], ties: bool) -> None:
        self._chain, self._n, self._marked, self._ties = chain, len(chain.slots), marked, ties
        self._negated = sorted({gap.position for gap in chain.absences})

    def automaton(self, counts: bool) -> Automaton:
        finals = [state for layer in range(-1, len(self._marked)) if layer >= 0 or counts for state in self._finals(layer)]
        maps = {rank: list(steps) for rank, steps in self._maps()}
        useful = _leading_to(finals, [step for steps in maps.values() for step in steps])
        maps = {rank: [step for step in steps if step[0] in useful] for rank, steps in maps.items()}
        found = dict.fromkeys([_START, *(to for steps in maps.values() for to, _, _ in steps)])
        states = [*sorted((state for state in found if state not in finals), key=_place), *finals]
        numbers = {state: number for number, state in enumerate(states)}
        n_ranks = settled_rank(self._n, self._n - 1) + 1
        steps = [maps.get(rank, []) for rank in range(n_ranks)]
        flat = [step for each in steps for step in each]
        pairs = [(numbers[to], -1 if source is None else numbers[source]) for to, source, _ in flat]
        reached = _closed(pairs, len(states))
        return Automaton(
            np.concatenate(([0], np.cumsum([len(each) for each in steps]))).astype(np.int64),
            np.array([to for to, _ in pairs], np.int64),
            np.array([source for _, source in pairs], np.int64),
            np.array([weighted for _, _, weighted in flat], np.bool_),
            np.array([int(np.flatnonzero(reached[:, i])[-1]) + 1 for i in range(len(states))], np.int64),
            np.array([int(np.flatnonzero(reached[i])[0]) for i in range(len(states))], np.int64),
            np.array([any(source == _START for _, source, _ in each) for each in steps], np.bool_),
            np.array([any(to in finals and source is not None for to, source, _ in each) for each in steps], np.bool_),
            np.array([any(to in finals for to, _, _ in each) for each in steps], np.bool_),
            len(states) - len(finals),
            np.array([int(state[1]) for state in finals], np.int64),  # type: ignore[call-overload]
        )

    # ------------------------------------------------------------ states

    def _crossed(self, slot: int, before: int) -> tuple[int, ...]:
        """The places of negations between a slot (-1: the start) and a later one (n: the end)."""
        return tuple(position for position in self._negated if slot < position <= before)

    def _times(self, slot: int) -> Times:
        return self._chain.times_of(slot)

    def _may_follow(self, slot: int) -> Iterator[int]:
        """The slots (n: the end) that may come next after a slot."""
        for following in range(slot + 1, self._n + 1):
            yield following
            if following < self._n and not self._times(following).may_be_absent:
                return

    def _finals(self, layer: int) -> list[_State]:
        first = self._marked[layer] if layer >= 0 else 0
        ending = [slot for slot in range(first, self._n) if self._n in self._may_follow(slot)]
        return list(dict.fromkeys(("final", layer, self._crossed(slot, self._n)) for slot in ending))

    def _held(self, layer: int, slot: int) -> int:
        """In how many states a list of a slot can be to which more events may be added."""
        times = self._times(slot)
        return times.least if times.most is None else times.most - 1

    def _listed(self, layer: int, slot: int, n: int) -> _State:
        return ("listed", layer, slot, n)

    def _waiting(self, layer: int, slot: int, before: int) -> _State:
        """The state of what has come to the end of a slot and waits for a later one."""
        crossed = self._crossed(slot, before)
        if self._times(slot).most is None and not crossed:
            return self._listed(layer, slot, self._times(slot).least)
        return ("waiting", layer, slot, crossed)

    # ------------------------------------------------------------ maps

    def _maps(self) -> Iterator[tuple[int, Iterable[_Step]]]:
        n = self._n
        arrivals = {slot: list(self._arrivals(slot)) for slot in range(n)}
        finals = [state for layer in range(-1, len(self._marked)) for state in self._finals(layer)]
        written = dict.fromkeys(to for steps in arrivals.values() for to, _, _ in steps)
        waiting = [(state, state[3]) for state in written if state[0] == "waiting"]
        for position in {*self._negated, n}:
            # The last one is there in any case: a leading negation that has left makes void what has ended before.
            zero = [state for state in finals if position in state[2] or position == n]  # type: ignore[operator]
            zero += [state for state, crossed in waiting if position in crossed]  # type: ignore[operator]
            zero += [_START] if position == 0 else []
            yield gap_rank(n, position), [(state, None, False) for state in zero]
        for slot in range(n):
            yield slot_rank(n, slot), arrivals[slot]
            if self._ties and meets_itself(self._times(slot)):
                yield tied_rank(n, slot), [(_copy(to) if to[0] == "listed" else to, source, w) for to, source, w in arrivals[slot]]
                listed = dict.fromkeys(to for to, _, _ in arrivals[slot] if to[0] == "listed")
                settled = [[(state, _copy(state), False), (_copy(state), None, False)] for state in listed]
                yield settled_rank(n, slot), [step for steps in settled for step in steps]

    def _arrivals(self, slot: int) -> Iterator[_Step]:
        """The steps of an event of a slot: what nobody reads first, then lists from the longest, each from itself first."""
        found: list[tuple[tuple[int, ...], _Step]] = []
        for layer in range(len(self._marked) - 1, -2, -1):
            for length, source, weighted in self._growing(layer, slot):
                for to in self._reached(layer, slot, length):
                    order = (to[0] == "listed", -layer, -int(to[3]) if to[0] == "listed" else 0, to != source)  # type: ignore[call-overload]
                    found.append((order, (to, source, weighted)))
        return (step for _, step in sorted(found, key=lambda each: each[0]))

    def _growing(self, layer: int, slot: int) -> Iterator[tuple[int, _State, bool]]:
        """How long the list of a slot is with one more event, from which state, and whether the event's weight counts."""
        marked = self._marked[layer] if layer >= 0 else -1
        if slot < marked:
            return
        if slot == marked:  # the event is the marked one, or one after it
            yield from ((length, source, True) for length, source, _ in self._growing(-1, slot))
        weighted = self._times(slot).is_one
        if slot != marked:
            yield from ((1, source, weighted) for source in self._sources(layer, slot))
        times = self._times(slot)
        for n in range(1, self._held(layer, slot) + 1):
            unbounded = times.most is None and n == times.least
            yield (n if unbounded else n + 1), self._listed(layer, slot, n), weighted

    def _sources(self, layer: int, slot: int) -> Iterator[_State]:
        """What may come before the first event of a slot."""
        first = self._marked[layer] if layer >= 0 else 0
        for earlier in range(slot - 1, first - 1, -1):
            if slot in self._may_follow(earlier):
                yield self._waiting(layer, earlier, slot)
        if layer < 0 and slot in self._may_follow(-1):
            yield _START

    def _reached(self, layer: int, slot: int, length: int) -> dict[_State, None]:
        """The states that a list of this length is counted in."""
        found: dict[_State, None] = {}
        if length <= self._held(layer, slot):
            found[self._listed(layer, slot, length)] = None
        if length >= self._times(slot).least:
            for following in self._may_follow(slot):
                final: _State = ("final", layer, self._crossed(slot, self._n))
                found[final if following == self._n else self._waiting(layer, slot, following)] = None
        return found


def _copy(state: _State) -> _State:
    return ("tied", *state[1:])


def _place(state: _State) -> tuple[object, ...]:
    """Where a state stands: by slot, then the copy before what it is added to."""
    if state == _START:
        return (-1,)
    order = {"tied": 0, "listed": 1, "waiting": 2}
    return (state[2], state[1], order[str(state[0])], state[3] if isinstance(state[3], int) else len(state[3]), str(state[3]))  # type: ignore[arg-type]


def _leading_to(finals: Sequence[_State], steps: Sequence[_Step]) -> set[_State]:
    useful = set(finals)
    while more := {source for to, source, _ in steps if to in useful and source is not None and source not in useful}:
        useful |= more
    return useful | {_START}


def _closed(pairs: Sequence[tuple[int, int]], n: int) -> npt.NDArray[np.bool_]:
    """Which state can be reached from which."""
    reached = np.eye(n, dtype=np.bool_)
    for to, source in pairs:
        if source >= 0:
            reached[source, to] = True
    for middle in range(n):
        reached |= reached[:, [middle]] & reached[[middle]]
    return reached
