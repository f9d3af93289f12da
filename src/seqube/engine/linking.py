"""From events to chains: what a plan asks of single events is asked once, of new ones only, and what is found is linked.

A `Linker` is made once for a plan and a schema: which types are of which slot or gap, what they must pass, what their key is, and
which values the clauses compare. `Chains` are what it goes on with (`chains` says how they work).

The loop compares 64-bit integers, and an entry must keep its own for as long as it lives. Whole numbers, times, truth values and
doubles have such a number, texts a code where they are only asked to be equal. What has none (a text that must be smaller, a
decimal, a whole number beyond 64 bits) is `Unsteady`: its meaning depends on what it is compared with, and such a stream is
evaluated by its whole window.

Cost: the new events, a pass per predicate; what is kept costs nothing.
Invariant: nothing is changed before everything that can fail was tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.chains import (
    CLOCK,
    FIELDS,
    WAITING_FIELDS,
    ChainShape,
    Linkable,
    due_starts,
    due_starts_of,
    find_linkable,
    link_entries,
    new_key,
    new_walk,
    walk_back,
    walk_on,
)
from seqube.engine.evaluation import PIECE
from seqube.engine.growing import Growing
from seqube.engine.limits import Budget
from seqube.engine.numbers import is_number
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import NULL, Evaluator, Ints, Mask, Unsteady, compared, gather, steady
from seqube.engine.sequence import OPS
from seqube.events import Events
from seqube.events.schema import ANY, TIME, TYPE, is_of
from seqube.language.tree import AnyOf, Attribute, Predicate, Value
from seqube.plan.needs import needs_of, staged_key, staged_scans
from seqube.plan.physical import Atom, MatchConjunction, MatchPlan, MatchSequence, Scan
from seqube.plan.witnesses import slots_of

NONE_FOUND = np.empty(0, np.int64)
_ALL = np.empty((0, 0), np.bool_)  # where nothing is asked of single events


@dataclass(slots=True)
class Chains:
    """The live arrays: entries, and what is known of each key and each partition."""

    entries: Growing
    keys: Ints
    parts: Ints  # the same table where partitions are all the keys there are
    codes: KeyCodes | None
    partitions: KeyCodes | None  # None: without partitions, or where the stream counts the events of each
    texts: list[KeyCodes]  # of clauses that ask whether texts are equal
    out: Ints  # where a walk writes its matches
    due: int = 0  # the first entry that may begin a match that is still to be reported

    @property
    def n_bytes(self) -> int:
        return self.entries.data.nbytes + self.keys.nbytes + (0 if self.parts is self.keys else self.parts.nbytes)

    @property
    def n_codes(self) -> int:
        """How many keys, or texts, there were since they were coded from what is kept."""
        n_codes = 0 if self.codes is None else len(self.codes)
        for known in (*self.texts, *([] if self.partitions is None else [self.partitions])):
            n_codes = max(n_codes, len(known))
        return n_codes

    def drop(self, upto: int) -> None:
        """Forget entries up to this clock; not where each partition has its own, because there they do not ascend."""
        self.entries.drop_upto(upto, CLOCK)


@dataclass(frozen=True, slots=True)
class _Side:
    """A value that the entries of a slot carry, in a column, for a test: how it becomes an integer, and by which codes of texts."""

    slot: int
    column: int
    how: str
    value: Value
    text: int = -1


@dataclass(frozen=True, slots=True)
class _Truth:
    """A test of one event that stands in a clause with others."""

    slot: int
    column: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class NewEvents:
    """What was found among new events, and all that has to be known of it: reading it can fail, linking it cannot."""

    found: Linkable
    kept: Ints  # the places of those that are kept
    values: Ints

    def in_place(self) -> NewEvents:
        """The same for events that are kept already, all of them."""
        return replace(self, found=self.found._replace(ranks=self.found.places))


NO_NEWS = NewEvents(Linkable(*(NONE_FOUND for _ in range(5))), NONE_FOUND, NONE_FOUND)


class Linker:
    """What a plan asks of events that look like these (of which there are none)."""

    def __init__(self, plan: MatchPlan, none: Events) -> None:
        node = plan.pattern
        assert isinstance(node, MatchSequence)
        self._plan, self._node, self._none = plan, node, none
        self._n_slots = len(node.slots)
        self._set_stages()
        self._new_key = new_key(self._n_slots, len(self._stages))
        self._set_roles()
        self._set_keys()
        self._set_shape()

    # ------------------------------------------------------------ prepared once

    def _set_stages(self) -> None:
        """All scans: those of slots, then those of gaps, each of which is a stage; and what a scan is asked beside its filters."""
        node = self._node
        self._scans = [slot for slot in node.slots if isinstance(slot, Scan)]
        kinds = list(range(self._n_slots))
        self._key_values: list[tuple[Value, ...]] = [tuple(column[slot] for column in node.key) for slot in kinds]
        self._local = [(0, clause) for clause in node.clauses if len(slots_of(clause)) == 1]
        self._stages: list[tuple[int, int, int]] = []
        self._last_stages: list[int] = []
        for number, gap in enumerate(node.gaps):
            inner, first = gap.instance, len(self._stages)
            scans = staged_scans(inner)
            if isinstance(inner, MatchSequence | MatchConjunction):
                self._local += [(len(self._scans), clause) for clause in inner.clauses]
            for i in range(len(scans)):
                in_any_order = isinstance(inner, MatchConjunction)
                self._stages.append((number, -1 if in_any_order or i == 0 else first + i - 1, first if in_any_order else -1))
                kinds.append(-first - i - 1)
                self._key_values.append(staged_key(gap, i))
            self._scans += scans
            if isinstance(inner, MatchConjunction):
                self._stages.append((number, -1, -1))  # reached when all others are
            self._last_stages.append(len(self._stages) - 1)
        self._kinds = np.array(kinds, np.int64)

    def _set_roles(self) -> None:
        """Types by the scans that they are of: a type has a role, a role its scans, and a scan what its events must pass."""
        names = frozenset[str]().union(*(scan.types for scan in self._scans))  # ANY among them stands for all others
        by_type = {name: tuple(n for n, scan in enumerate(self._scans) if is_of(name, scan.types)) for name in sorted(names)}
        roles = list(dict.fromkeys(by_type.values()))
        self._role_of = {name: roles.index(scans) for name, scans in by_type.items()}
        self._other_role = self._role_of.get(ANY, -1)
        self._role_starts = np.cumsum([0, *map(len, roles)])
        self._role_scans = np.array([scan for role in roles for scan in role], np.int64)
        asked: list[list[Predicate]] = [list(scan.filters) for scan in self._scans]
        for first, clause in self._local:
            (slot,) = slots_of(clause)
            tests = tuple(atom.predicate for atom in clause)
            asked[first + slot].append(tests[0] if len(tests) == 1 else AnyOf(tests))
        self._asked = {number: predicates for number, predicates in enumerate(asked) if predicates}

    def _set_keys(self) -> None:
        """The values of the key for each scan; none for those that cancel whatever the key."""
        node = self._node
        self._has_doubles: list[bool] = []
        evaluator = Evaluator(self._none)
        for number in range(len(node.key)):
            kinds = {self._type_of(values[number], scan, evaluator) for scan, values in self._keyed()}
            if len({_family(kind) for kind in kinds} - {"null"}) > 1:
                raise Unsteady
            self._has_doubles.append(any(map(pat.is_floating, kinds)))
        # Mostly all events have the key in the same columns: then it is read once for all of them.
        named = {tuple(value.name if isinstance(value, Attribute) else None for value in values) for _, values in self._keyed()}
        self._key_names = named.pop() if len(named) == 1 else (None,)
        self._whole_key = [] if self._plan.partition_by else self._whole_columns(self._key_names)
        self._whole_parts = self._whole_columns(self._plan.partition_by)

    def _whole_columns(self, names: Sequence[str | None]) -> list[int]:
        """The numbers of these columns, where all are of whole numbers: these are read as they are."""
        columns = self._none.schema.columns
        places = [columns.get_field_index(name) if name not in (None, TYPE, TIME) else -1 for name in names]
        return places if all(at >= 0 and pat.is_int64(columns.field(at).type) for at in places) else []

    def _keyed(self) -> Iterator[tuple[Scan, tuple[Value, ...]]]:
        return ((scan, values) for scan, values in zip(self._scans, self._key_values, strict=True) if values)

    def _type_of(self, value: Value, scan: Scan, evaluator: Evaluator) -> pa.DataType:
        return evaluator.array(value, {scan.variable: NONE_FOUND}, 0).type

    def _set_shape(self) -> None:
        """The clauses as tests of what entries carry, each at the slot with which a walk has chosen all that it names."""
        node, n_slots, waits = self._node, self._n_slots, self._plan.waits
        clauses = [clause for clause in node.clauses if len(slots_of(clause)) > 1]
        levels = [(max if waits else min)(slots_of(clause)) for clause in clauses]
        sides: list[_Side | _Truth] = []
        n_columns, n_texts = [0] * n_slots, 0

        def column(slot: int) -> int:
            n_columns[slot] += 1
            return n_columns[slot] - 1

        bounds, tests = [0], []
        for number in sorted(range(len(clauses)), key=levels.__getitem__):
            for atom in clauses[number]:
                if isinstance(atom, Atom):
                    how = self._comparing(atom)
                    pair = ((atom.left_slot, atom.left), (atom.right_slot, atom.right))
                    left, right = (_Side(slot, column(slot), how, value, n_texts) for slot, value in pair)
                    n_texts += how == "text"
                    sides += [left, right]
                    tests.append((OPS[atom.op], left.slot, left.column, right.slot, right.column))
                else:  # true is 1 and anything else null, so that it equals itself where it is true
                    truth = _Truth(atom.slot, column(atom.slot), atom.predicate)
                    sides.append(truth)
                    tests.append((OPS["="], truth.slot, truth.column, truth.slot, truth.column))
            bounds.append(len(tests))
        self._sides, self._n_values, self._n_texts = sides, max(n_columns), n_texts
        trailing = [gap.position == n_slots for gap in node.gaps]
        gaps = [
            (gap.position, gap.key is not None, sum(trailing[:number]), self._last_stages[number])
            for number, gap in enumerate(node.gaps)
        ]
        self.shape = ChainShape(
            n_slots,
            needs_of(self._plan, self._none.unit).window,
            waits,
            WAITING_FIELDS + sum(trailing) if waits else FIELDS,
            np.array(gaps, np.int64).reshape(-1, 4),
            np.array(self._stages, np.int64).reshape(-1, 3),
            np.searchsorted(np.sort(levels), np.arange(n_slots + 1)).astype(np.int64),
            np.array(bounds, np.int64),
            np.array(tests, np.int64).reshape(-1, 5),
        )

    def _comparing(self, atom: Atom) -> str:
        """How the two sides of a comparison become integers."""
        evaluator = Evaluator(self._none)
        sides = ((atom.left_slot, atom.left), (atom.right_slot, atom.right))
        kinds = {self._type_of(value, self._scans[slot], evaluator) for slot, value in sides}
        return compared(kinds, atom.op)

    # ------------------------------------------------------------ chains

    def start(self) -> Chains:
        parted, keyed = bool(self._plan.partition_by), bool(self._node.key)
        counts = self._plan.window.counts_events
        keys = self._new_key.reshape(1, -1).copy()
        return Chains(
            Growing(self.shape.values + self._n_values),
            keys,
            self._new_key.reshape(1, -1).copy() if keyed else keys,
            KeyCodes([*("#partition" for _ in self._plan.partition_by[:1]), *map(str, range(len(self._node.key)))], False)
            if keyed
            else None,
            KeyCodes(self._plan.partition_by, False) if parted and not counts else None,
            [KeyCodes(["text"], False) for _ in range(self._n_texts)],
            np.empty((self._n_slots, 256), np.int64),
        )

    def read(self, chains: Chains, events: Events, parts: Ints | None) -> NewEvents:
        """Find what takes part among new events; `parts` are their partitions, where the stream counts the events of each."""
        if len(events) == 1 and self._role_of.get(events.type_names[events.types[0]], self._other_role) < 0:
            return NO_NEWS  # most batches leave one event that waits for the next
        named = [self._role_of.get(name, self._other_role) for name in events.type_names]
        if max(named, default=-1) < 0:
            return NO_NEWS
        roles = np.array(named, np.int64)
        if chains.partitions is not None:
            parts = self._parts(chains.partitions, events, roles)
        evaluator = Evaluator(events)
        passes = self._passes(evaluator, events) if self._asked else _ALL
        scans, places, ranks, kept = find_linkable(
            events.types, roles, self._role_starts, self._role_scans, passes, NONE_FOUND if parts is None else parts
        )
        if not len(places):
            return NO_NEWS
        parts = np.zeros(len(places), np.int64) if parts is None else parts[places]
        codes = parts if chains.codes is None else self._codes(chains.codes, events, evaluator, scans, places, parts)
        found = Linkable(self._kinds[scans], places, ranks, codes, parts)
        return NewEvents(found, kept, self._values(chains, evaluator, scans, places))

    def _parts(self, known: KeyCodes, events: Events, roles: Ints) -> Ints:
        """The partitions of events; of those alone that may take part, -1 for all others."""
        parts = np.full(len(events), -1, np.int64)
        rows = np.flatnonzero(roles[events.types] >= 0)
        words = _whole_words(events, self._whole_parts, rows)
        if words is not None:
            parts[rows] = known.code_whole(words)
        else:
            parts[rows] = known.code([gather(events.column(name), rows) for name in self._plan.partition_by])
        return parts

    def _passes(self, evaluator: Evaluator, events: Events) -> Mask:
        """For each scan, which events pass what it asks of them alone."""
        passes = np.ones((len(self._scans), len(events)), np.bool_)
        for number, predicates in self._asked.items():
            scan = self._scans[number]
            of_type = np.array([is_of(name, scan.types) for name in events.type_names], np.bool_)
            rows = np.flatnonzero(of_type[events.types]) if len(of_type) else NONE_FOUND
            if len(rows):
                passes[number, rows] = evaluator.true(predicates, {scan.variable: rows}, len(rows))
        return passes

    def _codes(self, known: KeyCodes, events: Events, evaluator: Evaluator, scans: Ints, places: Ints, parts: Ints) -> Ints:
        """The key of everything found; -1 where it has none."""
        words = _whole_words(events, self._whole_key, places)
        if words is not None:
            return known.code_whole(words)
        codes = np.full(len(scans), -1, np.int64)
        if None not in self._key_names:
            columns = [evaluator.array(Attribute("", str(name)), {"": places}, len(places)) for name in self._key_names]
            return self._code(known, columns, parts)
        for number, values in enumerate(self._key_values):
            where = np.flatnonzero(scans == number)
            if len(where) and values:
                rows = {self._scans[number].variable: places[where]}
                columns = [evaluator.array(value, rows, len(where)) for value in values]
                codes[where] = self._code(known, columns, parts[where])
        return codes

    def _code(self, known: KeyCodes, columns: list[pa.Array], parts: Ints) -> Ints:
        for column, has_doubles in zip(columns, self._has_doubles, strict=True):
            if pat.is_nested(column.type) or (has_doubles and _is_exact(column.type)):
                raise Unsteady
        return known.code([pa.array(parts), *columns] if self._plan.partition_by else columns)

    def _values(self, chains: Chains, evaluator: Evaluator, scans: Ints, places: Ints) -> Ints:
        """What entries carry for the clauses."""
        values = np.zeros((len(scans), self._n_values), np.int64)
        for side in self._sides:
            where = np.flatnonzero(scans == side.slot)
            if not len(where):
                continue
            rows, variable = places[where], self._scans[side.slot].variable
            if isinstance(side, _Truth):
                true = evaluator.true([side.predicate], {variable: rows}, len(rows))
                values[where, side.column] = np.where(true, 1, NULL)
                continue
            column = evaluator.array(side.value, {variable: rows}, len(rows))
            if side.how == "text":
                codes = chains.texts[side.text].code([column])
                values[where, side.column] = np.where(codes < 0, NULL, codes)
            else:
                values[where, side.column] = steady(column, side.how)
        return values

    def link(self, chains: Chains, new: NewEvents, first: int, times: Ints, clocks: Ints) -> Ints:
        """Link what was found; the entries of the last slot among it. `first` is the number of the first row that is new."""
        found, entries = new.found, chains.entries
        if not len(found.kinds):
            return NONE_FOUND
        n_parts = int(found.parts.max()) + 1 if self._plan.partition_by else 1
        chains.keys = self._with_room(chains.keys, n_parts if chains.codes is None else len(chains.codes))
        chains.parts = chains.keys if chains.codes is None else self._with_room(chains.parts, n_parts)
        entries.reserve(len(found.kinds))
        span = np.array([entries.base, entries.head, entries.tail])
        ends = np.empty(len(found.kinds), np.int64)
        n_ends = link_entries(
            self.shape, found, first, times, clocks, new.values, entries.data, span, chains.keys, chains.parts, ends
        )
        entries.tail = int(span[2])
        return ends[:n_ends]

    def _with_room(self, table: Ints, size: int) -> Ints:
        if size <= len(table):
            return table
        grown = np.empty((2 * size, table.shape[1]), np.int64)
        grown[: len(table)], grown[len(table) :] = table, self._new_key
        return grown

    # ------------------------------------------------------------ matches

    def matches(self, chains: Chains, edges: Ints, budget: Budget) -> Iterator[Ints]:
        """The rows of matches that end with these entries (begin, where the plan waits), in pieces: an array for each slot.

        A piece is overwritten by the next one. A walk back finds the latest first, so from the last end to the first: what it gives
        is in the order of the stream, read from the end.
        """
        if not len(edges):
            return
        entries, cursor = chains.entries, new_walk(self._n_slots)
        edges = edges if self.shape.waits else edges[::-1].copy()
        while cursor[0] < len(edges):
            if self.shape.waits:
                count = walk_on(self.shape, entries.data, entries.base, edges, cursor, chains.out)
            else:
                count = walk_back(self.shape, entries.data, entries.base, entries.head, edges, cursor, chains.out)
            budget.check()
            if count:
                yield chains.out[:, :count] if self.shape.waits else chains.out[:, :count][:, ::-1]
            if count == chains.out.shape[1] and count < PIECE:  # a buffer that was too small once is not enough for long
                chains.out = np.empty((self._n_slots, min(4 * count, PIECE)), np.int64)

    def due(self, chains: Chains, upto: int) -> Ints:
        """The entries that begin matches up to this clock, and were not given before."""
        entries = chains.entries
        out = np.empty(entries.tail - max(chains.due, entries.head), np.int64)
        count, chains.due = due_starts(entries.data, entries.base, max(chains.due, entries.head), entries.tail, upto, out)
        return out[:count]

    def due_in(self, chains: Chains, parts: Ints, counts: Ints) -> Ints:
        """The same in each of these partitions, of which the events are counted."""
        entries, asked = chains.entries, parts[(parts >= 0) & (parts < len(chains.parts))]
        out = np.empty(len(entries), np.int64)
        count = due_starts_of(asked, counts, self.shape.window, entries.data, entries.base, entries.head, chains.parts, out)
        return out[:count]

    def next_due(self, chains: Chains) -> int | None:
        """The clock of the first entry that begins matches that are still to be reported."""
        entries, number = chains.entries, max(chains.due, chains.entries.head)
        return int(entries.data[number - entries.base, CLOCK]) if number < entries.tail else None


def _whole_words(events: Events, numbers: list[int], places: Ints) -> Ints | None:
    """Columns of whole numbers at these places, a row for each; None where there is a null, or no column."""
    columns = [events.table.column(number).chunk(0) for number in numbers]
    if not columns or any(column.null_count for column in columns):
        return None
    return np.stack([column.to_numpy()[places] for column in columns])


def _family(kind: pa.DataType) -> str:
    """What can be compared: numbers with numbers, texts with texts."""
    return "number" if is_number(kind) else "moment" if pat.is_timestamp(kind) else str(kind)


def _is_exact(kind: pa.DataType) -> bool:
    """Whether its values may have more digits than 64 bits hold."""
    return bool(pat.is_decimal(kind) or pat.is_uint64(kind) or pat.is_nested(kind))
