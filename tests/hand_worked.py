"""Tiny cases, worked out by hand, for every rule of the page on meaning: a query, a stream, the matches.

Streams are written as "A1 B2 C2": the type's letter and the timestamp; "A1:7" gives the event the id 7, "A1:-" a null id.
Matches are written the same way, one string per match: the events in the order of the variables, "-" for an untaken branch or an
absent event, a list in brackets.
"""

from __future__ import annotations

from oracle import Event, stream


def events(text: str) -> list[Event]:
    """The stream "A1:7 B2" as events; all have an id, null unless given."""
    parsed = []
    for word in text.split():
        head, _, key = word.partition(":")
        parsed.append((head[0], int(head[1:]), {"id": int(key) if key not in ("", "-") else None}))
    return stream(*parsed)


# Each case: the query, the stream, the matches.
SEQUENCES = [
    ("SEQ(A, B) WITHIN 10", "A1 B2", ["A1 B2"]),
    ("SEQ(A, B) WITHIN 10", "B1 A2", []),
    # all combinations, not only the nearest
    ("SEQ(A, B) WITHIN 10", "A1 A2 B3 B4", ["A1 B3", "A1 B4", "A2 B3", "A2 B4"]),
    ("SEQ(A x, A y) WITHIN 10", "A1 A2 A3", ["A1 A2", "A1 A3", "A2 A3"]),
    # equal timestamps are never one after the other, whatever the input order
    ("SEQ(A, B) WITHIN 10", "A1 B1 B2", ["A1 B2"]),
    ("SEQ(A x, A y) WITHIN 10", "A1 A1", []),
    # the parts of a nested sequence come in order as wholes
    ("SEQ(SEQ(A, B), C) WITHIN 10", "A1 C2 B3 C4", ["A1 B3 C4"]),
    ("SEQ(A, SEQ(B, C), D) WITHIN 10", "A1 B2 C3 D3 D4", ["A1 B2 C3 D4"]),
    ("A a WITHIN 10", "A1 B2 A3", ["A1", "A3"]),
]

WINDOWS = [
    # strict: a match that spans exactly the window is none
    ("SEQ(A, B) WITHIN 3", "A1 B3 B4", ["A1 B3"]),
    ("SEQ(A, B) WITHIN 3 ms", "A1 B3 B4", ["A1 B3"]),
    # half a tick more lets one tick more in
    ("SEQ(A, B) WITHIN 3500 us", "A1 B4 B5", ["A1 B4"]),
    ("AND(A, B) WITHIN 1", "A1 B1 B2", ["A1 B1"]),
    # the window is that of the whole match
    ("SEQ(A, SEQ(B, C)) WITHIN 3", "A1 B2 C3 C4", ["A1 B2 C3"]),
    # tuple-count windows number all events, also those that the pattern does not name
    ("SEQ(A, B) WITHIN 3 EVENTS", "A1 X2 B3 B4", ["A1 B3"]),
    ("SEQ(A, B) WITHIN 3 EVENTS", "A1 B100 X101 B102", ["A1 B100"]),
    ("SEQ(A, B) WITHIN 1 EVENTS", "A1 B2", []),
    # ties are numbered in input order: X is 1, B is 2
    ("SEQ(A, B) WITHIN 2 EVENTS", "A1 X2 B2", []),
    ("SEQ(A, B) WITHIN 2 EVENTS", "A1 B2 X2", ["A1 B2"]),
    # each partition has its own numbers
    ("SEQ(A, B) PARTITION BY id WITHIN 2 EVENTS", "A1:1 X2:2 B3:1 X4:1 B5:1", ["A1 B3"]),
]

OPERATORS = [
    ("AND(A, B) WITHIN 10", "B1 A2", ["A2 B1"]),
    ("AND(A, B) WITHIN 10", "A1 B1", ["A1 B1"]),
    # two matches per pair, and no event twice
    ("AND(A x, A y) WITHIN 10", "A1 A2", ["A1 A2", "A2 A1"]),
    ("AND(A x, A y) WITHIN 10", "A1", []),
    # components may interleave
    ("AND(SEQ(A, B), SEQ(C, D)) WITHIN 10", "A1 C2 B3 D4", ["A1 B3 C2 D4"]),
    # an event of one component is not in another, also inside a composite
    ("AND(A x, SEQ(A y, B)) WITHIN 10", "A1 B2", []),
    ("AND(A x, SEQ(A y, B)) WITHIN 10", "A1 B2 A3", ["A3 A1 B2"]),
    ("OR(A, B) WITHIN 10", "A1 B2", ["A1 -", "- B2"]),
    ("OR(B x, B y) WITHIN 10", "B1", ["B1 -", "- B1"]),
    ("SEQ(A, OR(B, SEQ(C, D)), E) WITHIN 10", "A1 B2 C3 D4 E5", ["A1 B2 - - E5", "A1 - C3 D4 E5"]),
]

NEGATIONS = [
    # in the middle: strictly between the neighbours
    ("SEQ(A, !B, C) WITHIN 10", "A1 B2 C3", []),
    ("SEQ(A, !B, C) WITHIN 10", "A1 B1 B3 C3", ["A1 C3"]),
    ("SEQ(A, !B, C) WITHIN 10", "A1 B2 A3 C4", ["A3 C4"]),
    # neighbouring negations do not depend on each other or on their order
    ("SEQ(A, !B, !C, D) WITHIN 10", "A1 C2 D3", []),
    ("SEQ(A, !B, !C, D) WITHIN 10", "A1 C2 B3 D4", []),
    ("SEQ(A, !B, !C, D) WITHIN 10", "A1 D2", ["A1 D2"]),
    # leading: after last - W, strictly; here last - W = 2
    ("SEQ(!B, A, C) WITHIN 4", "B2 A4 C6", ["A4 C6"]),
    ("SEQ(!B, A, C) WITHIN 4", "B3 A4 C6", []),
    ("SEQ(!B, A, C) WITHIN 4", "A4 B4 C6", ["A4 C6"]),
    # trailing: before first + W, strictly; here first + W = 5
    ("SEQ(A, C, !B) WITHIN 4", "A1 C3 B5", ["A1 C3"]),
    ("SEQ(A, C, !B) WITHIN 4", "A1 C3 B4", []),
    ("SEQ(A, C, !B) WITHIN 4", "A1 C3 B3", ["A1 C3"]),
    # over a composite: the whole instance lies inside
    ("SEQ(A, !SEQ(B, C), D) WITHIN 10", "A1 B2 C3 D4", []),
    ("SEQ(A, !SEQ(B, C), D) WITHIN 10", "A1 C2 B3 D4", ["A1 D4"]),
    ("SEQ(A, !SEQ(B, C), D) WITHIN 10", "A1 B2 C4 D4", ["A1 D4"]),
    ("SEQ(A, !AND(B, C), D) WITHIN 10", "A1 C2 B3 D4", []),
    ("SEQ(A, !AND(B, C), D) WITHIN 10", "A1 C2 D4", ["A1 D4"]),
    ("SEQ(A, !OR(B, C), D) WITHIN 10", "A1 C2 D4", []),
    ("SEQ(A, !OR(B, C), D) WITHIN 10", "A1 D4 C5", ["A1 D4"]),
    # bounds inherited from the enclosing expression's neighbour: the scope of !C is (b, d)
    ("SEQ(A, SEQ(B, !C), SEQ(D, E), F) WITHIN 20", "A1 B2 C3 D4 E5 F6", []),
    ("SEQ(A, SEQ(B, !C), SEQ(D, E), F) WITHIN 20", "A1 B2 D4 C5 E6 F7", ["A1 B2 D4 E6 F7"]),
    ("SEQ(A, SEQ(!C, B), D) WITHIN 20", "A1 C2 B3 D4", []),
    ("SEQ(A, SEQ(!C, B), D) WITHIN 20", "C0 A1 B3 D4", ["A1 B3 D4"]),
    # ... and outwards to the root: first + W = 6
    ("SEQ(A, SEQ(B, !C)) WITHIN 5", "A1 B2 C5", []),
    ("SEQ(A, SEQ(B, !C)) WITHIN 5", "A1 B2 C6", ["A1 B2"]),
    # next to an AND the bound is where the AND ends or starts
    ("SEQ(AND(A, B), !C, D) WITHIN 10", "A1 C2 B3 D4", ["A1 B3 D4"]),
    ("SEQ(AND(A, B), !C, D) WITHIN 10", "B1 A2 C3 D4", []),
    # next to an OR it is that of the branch taken
    ("SEQ(OR(A, SEQ(A x, B)), !C, D) WITHIN 10", "A1 C2 B3 D4", ["- A1 B3 D4"]),
    # two levels: cancelled by a b in (a, d) without a c in (b, d)
    ("SEQ(A, !SEQ(B, !C), D) WITHIN 10", "A1 B2 D4", []),
    ("SEQ(A, !SEQ(B, !C), D) WITHIN 10", "A1 B2 C3 D4", ["A1 D4"]),
    ("SEQ(A, !SEQ(B, !C), D) WITHIN 10", "A1 B2 D4 C5", []),
    ("SEQ(A, !SEQ(B, !C), D) WITHIN 10", "A1 B2 C3 B4 D5", []),
    ("SEQ(A, !SEQ(!C, B), D) WITHIN 10", "A1 C2 B3 D4", ["A1 D4"]),
    ("SEQ(A, !SEQ(!C, B), D) WITHIN 10", "C0 A1 B3 D4", []),
    # three levels
    ("SEQ(A, !SEQ(B, !SEQ(C, !D)), E) WITHIN 10", "A1 B2 C3 E5", ["A1 E5"]),
    ("SEQ(A, !SEQ(B, !SEQ(C, !D)), E) WITHIN 10", "A1 B2 C3 D4 E5", []),
    # a leading negation hands its own left bound on: here last - W = 0
    ("SEQ(!SEQ(!B, A), C) WITHIN 5", "B0 A3 C5", []),
    ("SEQ(!SEQ(!B, A), C) WITHIN 5", "B1 A3 C5", ["C5"]),
    # in tuple-count windows the bounds made of the window are in event numbers
    ("SEQ(!B, A, C) WITHIN 3 EVENTS", "B1 A2 C3", []),
    ("SEQ(!B, A, C) WITHIN 3 EVENTS", "B1 X2 A3 C4", ["A3 C4"]),
    ("SEQ(A, C, !B) WITHIN 3 EVENTS", "A1 C2 B9", []),
    ("SEQ(A, C, !B) WITHIN 3 EVENTS", "A1 C2 X3 B4", ["A1 C2"]),
    ("SEQ(A, !B, C) WITHIN 3 EVENTS", "A1 B1 C3", ["A1 C3"]),
]

NEGATIONS_IN_AND = [
    # the window that ends with the AND's last event: (te - W, te]
    ("AND(A, B, !C) WITHIN 4", "A3 C4 B5", []),
    ("AND(A, B, !C) WITHIN 4", "C2 A3 B5", []),
    ("AND(A, B, !C) WITHIN 4", "C1 A3 B5", ["A3 B5"]),
    ("AND(A, B, !C) WITHIN 4", "A3 B5 C5", []),
    ("AND(A, B, !C) WITHIN 4", "A3 B5 C6", ["A3 B5"]),
    # clipped to what is inherited
    ("SEQ(X, AND(A, B, !C)) WITHIN 9", "C1 X2 A3 B5", ["X2 A3 B5"]),
    ("SEQ(X, AND(A, B, !C)) WITHIN 9", "X2 C2 A3 B5", ["X2 A3 B5"]),
    ("SEQ(X, AND(A, B, !C)) WITHIN 9", "X2 A3 C4 B5", []),
    # the closed right end goes on into the negated expression
    ("AND(A, B, !SEQ(C, !D)) WITHIN 9", "A1 C2 B5", []),
    ("AND(A, B, !SEQ(C, !D)) WITHIN 9", "A1 C2 B5 D5", ["A1 B5"]),
    ("AND(A, B, !SEQ(C, !D)) WITHIN 9", "A1 C2 B5 D6", []),
    # a negated AND inside a scope: its window ends with its own last event
    ("SEQ(A, !AND(B, !C), D) WITHIN 9", "A1 B2 D4", []),
    ("SEQ(A, !AND(B, !C), D) WITHIN 9", "A1 C2 B3 D4", ["A1 D4"]),
    ("SEQ(A, !AND(B, !C), D) WITHIN 9", "A1 B2 C3 D4", []),
    # AND and OR give no order: the SEQ inside inherits from where the AND stands, at the root first + W and last - W
    ("AND(SEQ(A, !B), C) WITHIN 5", "A1 C2 B5", []),
    ("AND(SEQ(A, !B), C) WITHIN 5", "C1 A2 B5", []),
    ("AND(SEQ(A, !B), C) WITHIN 5", "C1 A2 B6", ["A2 C1"]),
    ("AND(SEQ(!B, A), C) WITHIN 5", "B1 A2 C6", ["A2 C6"]),
    ("AND(SEQ(!B, A), C) WITHIN 5", "B1 A2 C5", []),
    ("SEQ(AND(SEQ(A, !B), C), D) WITHIN 9", "A1 C2 B3 D4", []),
    ("SEQ(OR(SEQ(A, !B), C), D) WITHIN 9", "A1 B2 C3 D4", ["- C3 D4"]),
    # tuple-count window: the left end in numbers (the AND ends with event 2 or 3), the right end in time
    ("AND(A, B, !C) WITHIN 3 EVENTS", "C0 A1 B2", []),
    ("AND(A, B, !C) WITHIN 3 EVENTS", "C0 X0 A1 B2", ["A1 B2"]),
    ("AND(A, B, !C) WITHIN 3 EVENTS", "A1 B2 C2", []),
    # ... so with ties an x may span n events and more, but at the root it still ends before number(first) + n
    ("AND(A, !SEQ(B, C)) WITHIN 2 EVENTS", "B1 A2 C2", []),
    ("AND(A, !SEQ(B, C)) WITHIN 2 EVENTS", "B1 A2 X2 C2", ["A2"]),
    ("AND(A, !SEQ(B, AND(C, D))) WITHIN 3 EVENTS", "B1 A2 C2 D2", []),
    # an event of a positive component cancels as any other
    ("AND(A x, !A y) WITHIN 5", "A1", []),
]

SAME = [
    ("SEQ(A, B, [id]) WITHIN 10", "A1:1 A2:2 B3:1", ["A1 B3"]),
    ("SEQ(A, B) WHERE [id] WITHIN 10", "A1:1 A2:2 B3:1", ["A1 B3"]),
    ("SEQ(A, B, [id]) WITHIN 10", "A1:- B3:-", []),
    # one event alone is compared with nothing
    ("OR(A, B, [id]) WITHIN 10", "A1:-", ["A1 -"]),
    # a branch not taken takes no part
    ("SEQ(A, OR(B, C), [id]) WITHIN 10", "A1:1 B2:1 C3:2", ["A1 B2 -"]),
    # negated components are bound by it too: only an x with the same id counts
    ("SEQ(A, !B, C, [id]) WITHIN 10", "A1:1 B2:1 C3:1", []),
    ("SEQ(A, !B, C, [id]) WITHIN 10", "A1:1 B2:2 B2:- C3:1", ["A1 C3"]),
    ("SEQ(A, !SEQ(B, C), D, [id]) WITHIN 10", "A1:1 B2:1 C3:2 D4:1", ["A1 D4"]),
    ("SEQ(A, !SEQ(B, !C), D, [id]) WITHIN 10", "A1:1 B2:1 C3:2 D4:1", []),
    ("SEQ(A, !SEQ(B, !C), D, [id]) WITHIN 10", "A1:1 B2:1 C3:1 D4:1", ["A1 D4"]),
    ("SEQ(A, SEQ(B, !C), D, [id]) WITHIN 10", "A1:1 B2:1 C3:2 D4:1", ["A1 B2 D4"]),
    # only the operator it stands in
    ("SEQ(A, SEQ(B, C, [id])) WITHIN 10", "A1:1 B2:2 C3:2", ["A1 B2 C3"]),
    ("SEQ(A, !SEQ(B, C, [id]), D) WITHIN 10", "A1:1 B2:2 C3:2 D4:1", []),
    # a single positive event without id: nothing equals it
    ("SEQ(A, !B, [id]) WITHIN 10", "A1:- B2:-", ["A1"]),
]

PREDICATES = [
    ("SEQ(A a, B b, a.id < b.id) WITHIN 10", "A1:1 B2:1 B3:2", ["A1 B3"]),
    ("SEQ(A a, B b) WHERE a.id < b.id WITHIN 10", "A1:1 B2:1 B3:2", ["A1 B3"]),
    ("SEQ(A a, B b, C c, a.id = b.id = c.id) WITHIN 10", "A1:1 B2:1 C3:1 C4:2", ["A1 B2 C3"]),
    # part of the negation: "no such b"
    ("SEQ(A a, !B b, C c, b.id = 1) WITHIN 10", "A1 B2:2 C3", ["A1 C3"]),
    ("SEQ(A a, !B b, C c, b.id = 1) WITHIN 10", "A1 B2:1 C3", []),
    ("SEQ(A a, !B b, C c, b.id = a.id) WITHIN 10", "A1:1 B2:1 A3:2 B4:1 C5", ["A3 C5"]),
    # correlated with what is outside, and with what comes later
    ("SEQ(A a, !SEQ(B b, C c, b.id = d.id), D d) WITHIN 10", "A1 B2:1 C3 D4:1 D5:2", ["A1 D5"]),
    # it belongs to the innermost negation it names: "no b such that there is no c with c.id = b.id"
    ("SEQ(A a, !SEQ(B b, !C c, c.id = b.id), D d) WITHIN 10", "A1 B2:1 C3:1 D4", ["A1 D4"]),
    ("SEQ(A a, !SEQ(B b, !C c, c.id = b.id), D d) WITHIN 10", "A1 B2:1 C3:2 D4", []),
    # inside a negated expression, a predicate on an outer variable alone is part of the negation
    ("SEQ(A a, !SEQ(B b, C c, a.id = 1), D d) WITHIN 10", "A1:2 B2 C3 D4", ["A1 D4"]),
    ("SEQ(A a, !SEQ(B b, C c, a.id = 1), D d) WITHIN 10", "A1:1 B2 C3 D4", []),
    # a negated component that fails its own predicates cancels nothing, positives that fail theirs are no match
    ("SEQ(A a, !OR(B b, C c, b.id = 1), D d) WITHIN 10", "A1 C2 B3:2 D4", ["A1 D4"]),
    # BETWEEN and NOT (... OR ...) are one predicate: all of it is part of the negation, also what its halves would say of others
    ("SEQ(A a, !C c, B b, a.id BETWEEN 1 AND c.id) WITHIN 10", "A1:0 B5", ["A1 B5"]),
    ("SEQ(A a, !C c, B b) WHERE a.id BETWEEN 1 AND c.id WITHIN 10", "A1:0 B5", ["A1 B5"]),
    ("SEQ(A a, !C c, B b, a.id BETWEEN 1 AND c.id) WITHIN 10", "A1:0 A2:1 A3:4 C4:2 B5", ["A1 B5", "A3 B5"]),
    ("SEQ(A a, !C c, B b, NOT (a.id < 1 OR c.id < 1)) WITHIN 10", "A1:0 B5", ["A1 B5"]),
    ("SEQ(A a, !C c, B b) WHERE NOT (a.id < 1 OR c.id < 1) WITHIN 10", "A1:0 A2:1 C4:1 B5", ["A1 B5"]),
    ("SEQ(A a, !C c, B b, NOT (a.id < 1 OR c.id < 1)) WITHIN 10", "A1:- A2:1 C4:0 C4:- B5", ["A1 B5", "A2 B5"]),
    ("SEQ(A a, !C c, B b, NOT (a.id != c.id OR b.id < 1)) WITHIN 10", "A1:1 C2:1 B5:0 B6:1", ["A1 B5"]),
    ("SEQ(A a, !C c, B b, NOT (a.id NOT BETWEEN 1 AND c.id)) WITHIN 10", "A1:0 B5", ["A1 B5"]),
    ("SEQ(A a, !C c, B b, 2 BETWEEN 3 AND c.id) WITHIN 10", "A1 C2:9 B5", ["A1 B5"]),
    ("SEQ(!C c, A a, a.id BETWEEN 1 AND c.id) WITHIN 10", "C1:5 A2:0 A3:3", ["A2"]),
    ("SEQ(A a, !C c, a.id BETWEEN 1 AND c.id) WITHIN 10", "A2:0 A3:3 C4:5", ["A2"]),
    ("AND(A a, B b, !C c, a.id BETWEEN b.id AND c.id) WITHIN 10", "C1:5 A2:0 B3:1 A4:2", ["A2 B3"]),
    # ... which is the innermost one it names
    ("SEQ(A a, !SEQ(C c, !D d, a.id BETWEEN 1 AND d.id), B b) WITHIN 10", "A1:0 C2 B5", []),
    ("SEQ(A a, !SEQ(C c, !D d, a.id BETWEEN c.id AND d.id), B b) WITHIN 10", "A1:3 C2:1 D3:4 B5 C6:4 D7:9 B8", ["A1 B5"]),
    # ... wherever it stands
    ("SEQ(A a, !C c, SEQ(B b, D d, a.id BETWEEN b.id AND c.id)) WITHIN 10", "A1:0 B4:1 D5", ["A1 B4 D5"]),
    ("SEQ(A a, !C c, OR(B b, SEQ(D d, E e, d.id BETWEEN 1 AND c.id))) WITHIN 10", "A1 D4:0 E5", ["A1 - D4 E5"]),
    # without a negation it says what its halves say
    ("SEQ(A a, B b, a.id BETWEEN 1 AND b.id) WITHIN 10", "A1:0 A2:1 A3:4 B5:2", ["A2 B5"]),
    # null is not equal, not different and not in a range; only IS NULL sees it
    ("A a WHERE a.id = 1 WITHIN 10", "A1:- A2:1", ["A2"]),
    ("A a WHERE a.id != 1 WITHIN 10", "A1:- A2:2", ["A2"]),
    ("A a WHERE NOT a.id = 1 WITHIN 10", "A1:- A2:2", ["A2"]),
    ("A a WHERE a.id IS NULL WITHIN 10", "A1:- A2:2", ["A1"]),
    ("A a WHERE a.id IS NOT NULL WITHIN 10", "A1:- A2:2", ["A2"]),
    ("A a WHERE a.id = 1 OR a.id IS NULL WITHIN 10", "A1:- A2:1 A3:2", ["A1", "A2"]),
    ("A a WHERE NOT (a.id = 1 AND a.ts = 9) WITHIN 10", "A1:- A2:1", ["A1", "A2"]),
    ("A a WHERE a.id IN (1, 3) WITHIN 10", "A1:1 A2:2 A3:3 A4:-", ["A1", "A3"]),
    ("A a WHERE a.id NOT IN (1, 3) WITHIN 10", "A1:1 A2:2 A3:3 A4:-", ["A2"]),
    ("A a WHERE a.id NOT IN (1, NULL) WITHIN 10", "A1:1 A2:2", []),
    ("A a WHERE a.id BETWEEN 2 AND 3 WITHIN 10", "A1:1 A2:2 A3:3 A4:4 A5:-", ["A2", "A3"]),
    ("A a WHERE a.id NOT BETWEEN 2 AND 3 WITHIN 10", "A1:1 A2:2 A3:3 A4:4 A5:-", ["A1", "A4"]),
    # arithmetic: true division, a remainder with the sign of the dividend, null for a division by zero
    ("A a WHERE a.id / 2 = 1.5 WITHIN 10", "A1:3 A2:2", ["A1"]),
    ("A a WHERE -a.id % 3 = -1 WITHIN 10", "A1:4 A2:5", ["A1"]),
    ("A a WHERE 1 / a.id IS NULL WITHIN 10", "A1:0 A2:1", ["A1"]),
    ("A a WHERE a.id + 1 > 2 WITHIN 10", "A1:1 A2:2 A3:-", ["A2"]),
    ("A a WHERE a.id = 9007199254740993 WITHIN 10", "A1:9007199254740993 A2:9007199254740992", ["A1"]),
    # every event has a type and a time
    ("SEQ(A a, B b) WHERE b.ts - a.ts < 2 ms WITHIN 10", "A1 B2 B3", ["A1 B2"]),
    ("A a WHERE a.type = 'A' WITHIN 10", "A1", ["A1"]),
    # variables of a branch not taken are null
    ("OR(A a, B b) WHERE a.ts < 5 WITHIN 10", "A1 B2", ["A1 -"]),
    ("OR(A a, B b) WHERE a.ts IS NULL WITHIN 10", "A1 B2", ["- B2"]),
    # a predicate inside a branch applies only when the branch is taken
    ("OR(A a, SEQ(B b, C c, b.id = c.id)) WITHIN 10", "A1 B2:1 C3:2 C4:1", ["A1 - -", "- B2 C4"]),
    # the part of a negation that is written inside a neighbour belongs to the negation; null variables make it untrue
    ("SEQ(A a, !B b, SEQ(C c, D d, b.id = d.id)) WITHIN 10", "A1 B2:1 C3 D4:1 D5:2", ["A1 C3 D5"]),
    ("SEQ(A a, !B b, OR(C c, SEQ(D d, E e, b.id = e.id))) WITHIN 10", "A1 B2:1 D4 E5:1 E6:2", ["A1 - D4 E6"]),
    ("SEQ(A a, !B b, OR(C c, SEQ(D d, E e, b.id = e.id))) WITHIN 10", "A1 B2:1 C3", ["A1 C3 - -"]),
    # events without a key are in no partition
    ("SEQ(A, B) PARTITION BY id WITHIN 10", "A1:1 A2:2 A3:- B4:1 B5:-", ["A1 B4"]),
    ("SEQ(A, !B, C) PARTITION BY id WITHIN 10", "A1:1 B2:2 B2:- C3:1", ["A1 C3"]),
]

REPETITIONS = [
    # every list counts
    ("SEQ(A, B+ b) WITHIN 10", "A1 B2 B3", ["A1 [B2]", "A1 [B3]", "A1 [B2 B3]"]),
    ("SEQ(B{2} b) WITHIN 10", "B1 B2 B3", ["[B1 B2]", "[B1 B3]", "[B2 B3]"]),
    ("SEQ(B{2,} b) WITHIN 10", "B1 B2 B3", ["[B1 B2]", "[B1 B3]", "[B2 B3]", "[B1 B2 B3]"]),
    ("SEQ(B{,1} b, C) WITHIN 10", "B1 C2", ["B1 C2", "- C2"]),
    # an equality with a part that is absent is met, whatever the events of the list are among themselves
    ("SEQ(A? a, B+ b) WHERE a.id = b.id WITHIN 10", "B1:1 B2:2", ["- [B1]", "- [B2]", "- [B1 B2]"]),
    (
        "SEQ(A? a, B+ b) WHERE a.id = b.id WITHIN 3",
        "A1:1 B2:1 B3:1 B5:2",
        ["A1 [B2]", "A1 [B3]", "A1 [B2 B3]", "- [B2]", "- [B3]", "- [B5]", "- [B2 B3]", "- [B3 B5]"],
    ),
    ("SEQ(A+ a, B* b) WHERE a.id = b.id WITHIN 10", "A1:1 A2:2 B3:2", ["[A1] []", "[A2] []", "[A1 A2] []", "[A2] [B3]"]),
    ("SEQ(B{1} b, C) WITHIN 10", "B1 C2", ["[B1] C2"]),
    ("SEQ(A, B? b, C) WITHIN 10", "A1 B2 C3", ["A1 B2 C3", "A1 - C3"]),
    ("SEQ(A, B* b, C) WITHIN 10", "A1 B2 C3", ["A1 [B2] C3", "A1 [] C3"]),
    # each event of a list after the one before, and a match has at least one event
    ("SEQ(B+ b) WITHIN 10", "B1 B1", ["[B1]", "[B1]"]),
    ("SEQ(B* b) WITHIN 10", "A1 B2", ["[B2]"]),
    ("SEQ(A? a, B? b) WITHIN 10", "B1 A2", ["A2 -", "- B1"]),
    # the window is that of the whole match
    ("SEQ(A, B+ b) WITHIN 3", "A1 B2 B4", ["A1 [B2]"]),
    ("SEQ(B+ b) WITHIN 2 EVENTS", "B1 X2 B3 B4", ["[B1]", "[B3]", "[B4]", "[B3 B4]"]),
    # where a part is absent its neighbours are each other's, for order and for negations
    ("SEQ(A, B? b, C) WITHIN 10", "B1 A2 C2 C3", ["A2 - C3"]),
    ("SEQ(A, !D, B? b, C) WITHIN 10", "A1 B2 D3 C4", ["A1 B2 C4"]),
    ("SEQ(A, B? b, !D, C) WITHIN 10", "A1 D2 B3 C4", ["A1 B3 C4"]),
    ("SEQ(B* b, !D, C) WITHIN 4", "D1 B2 C4", ["[B2] C4"]),
    ("SEQ(A, !SEQ(B+ b, COUNT(b) > 1), C) WITHIN 10", "A1 B2 C3 B4 C5", ["A1 C3"]),
    # inside others
    ("AND(SEQ(B{2} b), A) WITHIN 10", "B1 A2 B3", ["[B1 B3] A2"]),
    ("OR(A, SEQ(B{2} b)) WITHIN 10", "A1 B2 B3", ["A1 []", "- [B2 B3]"]),
    ("AND(SEQ(B+ b), B c) WITHIN 10", "B1 B2", ["[B1] B2", "[B2] B1"]),
    # a predicate holds for every event of a list, so an absent part meets it; one that names two lists, for every pair
    ("SEQ(A, B* b) WHERE b.id > 1 WITHIN 10", "A1 B2:1 B3:2 B4:3", ["A1 []", "A1 [B3]", "A1 [B4]", "A1 [B3 B4]"]),
    ("SEQ(A a, B? b, C c) WHERE b.id = c.id WITHIN 10", "A1 B2:1 C3:2", ["A1 - C3"]),
    ("SEQ(A? a, C c) WHERE a.id IS NULL WITHIN 10", "A1:1 C2", ["- C2"]),
    (
        "SEQ(A+ a, B+ b) WHERE a.id < b.id WITHIN 10",
        "A1:1 A2:3 B3:2 B4:4",
        ["[A1] [B3]", "[A1] [B4]", "[A1] [B3 B4]", "[A2] [B4]", "[A1 A2] [B4]"],
    ),
    # the same on every event of a list
    ("SEQ(A, B{2} b, [id]) WITHIN 10", "A1:1 B2:1 B3:2 B4:1", ["A1 [B2 B4]"]),
    ("SEQ(B{2} b, [id]) WITHIN 10", "B1:1 B2:2 B3:1 B4:-", ["[B1 B3]"]),
    ("SEQ(A? a, B b, [id]) WITHIN 10", "A1:1 B2:2 B3:1", ["- B2", "- B3", "A1 B3"]),
    # the event before
    ("SEQ(B{2,} b) WHERE b.id > PREV(b.id) WITHIN 10", "B1:1 B2:3 B3:2", ["[B1 B2]", "[B1 B3]"]),
    ("SEQ(B+ b) WHERE b.id = PREV(b.id) + 1 WITHIN 10", "B1:1 B2:2 B3:4", ["[B1]", "[B2]", "[B3]", "[B1 B2]"]),
    # values of a list
    ("SEQ(A, B* b) WHERE COUNT(b) < 2 WITHIN 10", "A1 B2 B3", ["A1 []", "A1 [B2]", "A1 [B3]"]),
    ("SEQ(A, B? b) WHERE COUNT(b) = 1 WITHIN 10", "A1 B2", ["A1 B2"]),
    ("SEQ(B+ b) WHERE SUM(b.id) = 3 WITHIN 10", "B1:1 B2:2 B3:3 B4:-", ["[B1 B2]", "[B1 B2 B4]", "[B3]", "[B3 B4]"]),
    ("SEQ(B{2} b) WHERE FIRST(b.id) > LAST(b.id) WITHIN 10", "B1:2 B2:1 B3:3", ["[B1 B2]"]),
    ("SEQ(B{2} b) WHERE MAX(b.id) - MIN(b.id) > 1 AND AVG(b.id) = 2 WITHIN 10", "B1:1 B2:2 B3:3", ["[B1 B3]"]),
    ("SEQ(A, B* b) WHERE SUM(b.id) IS NULL WITHIN 10", "A1 B2:1", ["A1 []"]),
    ("SEQ(B{2} b) WHERE b.id = MAX(b.id) WITHIN 10", "B1:1 B2:2 B3:2", ["[B2 B3]"]),
]

NEXTS = [
    # the first event that fits, once for each start
    ("NEXT(A, B) WITHIN 10", "A1 A2 C3 B4 B5", ["A1 B4", "A2 B4"]),
    ("NEXT(A, B, C) WITHIN 10", "A1 B2 B3 C4", ["A1 B2 C4"]),
    ("NEXT(A, B) WITHIN 3", "A1 B4", []),
    ("NEXT(A, B) WITHIN 2 EVENTS", "A1 X2 B3", []),
    # equal times are never one after the other
    ("NEXT(A, B) WITHIN 10", "A1 B1 B2", ["A1 B2"]),
    # nothing is taken back: B2 is taken, and no C comes after it in the window
    ("NEXT(A, B, C) WITHIN 4", "A1 B2 C5", []),
    # predicates say what fits
    ("NEXT(A a, B b) WHERE b.id = a.id WITHIN 10", "A1:1 B2:2 B3:1", ["A1 B3"]),
    ("NEXT(A a, B b, [id]) WITHIN 10", "A1:1 B2:2 B3:1 A4:- B5:-", ["A1 B3"]),
    ("NEXT(A a, B b, C c) WHERE c.id > a.id WITHIN 10", "A1:1 B2 C3:1 C4:2", ["A1 B2 C4"]),
    # BETWEEN is one predicate, asked when all that it names is bound: B2 is taken, and then no C will do.
    ("NEXT(A a, B b, C c) WHERE b.id BETWEEN 1 AND c.id WITHIN 10", "A1 B2:0 B3:5 C4:9", []),
    ("NEXT(A a, B b, C c) WHERE b.id >= 1 AND b.id <= c.id WITHIN 10", "A1 B2:0 B3:5 C4:9", ["A1 B3 C4"]),
    ("NEXT(A, B) PARTITION BY id WITHIN 10", "A1:1 B2:2 B3:1", ["A1 B3"]),
    # a repeated part takes as many as it can; the last one waits for the window's end
    ("NEXT(A, B+ b, C) WITHIN 10", "A1 B2 D3 B4 C5", ["A1 [B2 B4] C5"]),
    ("NEXT(A, B+ b) WITHIN 4", "A1 B2 B3 B5", ["A1 [B2 B3]"]),
    ("NEXT(A, B{2} b) WITHIN 10", "A1 B2 B3 B4", ["A1 [B2 B3]"]),
    ("NEXT(A, B{2,} b, C) WITHIN 10", "A1 B2 C3 B4 C5", ["A1 [B2 B4] C5"]),
    ("NEXT(A, B{,2} b, B c) WITHIN 10", "A1 B2 B3 B4", ["A1 [B2 B3] B4"]),
    ("NEXT(A, B* b, C) WITHIN 10", "A1 C2", ["A1 [] C2"]),
    ("NEXT(A, B? b, C) WITHIN 10", "A1 C2 B3 C4", ["A1 - C2"]),
    ("NEXT(A, B? b) WITHIN 3", "A1 C2 B3 A4 B9", ["A1 B3", "A4 -"]),
    # past parts that may be absent, a later one begins
    ("NEXT(A? a, B) WITHIN 10", "A1 B2", ["A1 B2", "- B2"]),
    # reluctant: moves on as soon as it can
    ("NEXT(A, B+? b, C) WITHIN 10", "A1 B2 B3 C4", ["A1 [B2 B3] C4"]),
    ("NEXT(A, B+? b) WITHIN 10", "A1 B2 B3", ["A1 [B2]"]),
    ("NEXT(A, B*? b) WITHIN 10", "A1 B2", ["A1 []"]),
    ("NEXT(A, B+? b, B c) WITHIN 10", "A1 B2 B3 B4", ["A1 [B2] B3"]),
    ("NEXT(A, B+ b, B c) WITHIN 10", "A1 B2 B3 B4", []),
    # what is asked of a list as a whole keeps the run in it
    ("NEXT(A, B+ b, C) WHERE COUNT(b) >= 2 WITHIN 10", "A1 B2 C3 B4 C5", ["A1 [B2 B4] C5"]),
    ("NEXT(A, B+ b) WHERE COUNT(b) >= 2 WITHIN 3", "A1 B2 A4 B5 B6", ["A4 [B5 B6]"]),
    ("NEXT(A, B+? b) WHERE SUM(b.id) >= 3 WITHIN 10", "A1 B2:1 B3:2 B4:3", ["A1 [B2 B3]"]),
    ("NEXT(A, B+ b, C) WHERE b.id > PREV(b.id) WITHIN 10", "A1 B2:1 B3:1 B4:2 C5", ["A1 [B2 B4] C5"]),
    ("NEXT(A, B+ b, C c) WHERE c.id > b.id WITHIN 10", "A1 B2:1 B3:3 C4:2 C5:4", ["A1 [B2 B3] C5"]),
    # alternatives: the first that fits
    ("NEXT(A, OR(B b, C c), D) WITHIN 10", "A1 C2 B3 D4", ["A1 - C2 D4"]),
    ("NEXT(OR(B x, B y)) WITHIN 10", "B1", ["B1 -"]),
    ("NEXT(OR(B x, B y)) WHERE x.id > 1 WITHIN 10", "B1:1 B2:2", ["B2 -"]),
    # negations are asked of the match that was found
    ("NEXT(A, !C, B) WITHIN 10", "A1 C2 B3 A4 B5", ["A4 B5"]),
    ("NEXT(A, B, !C) WITHIN 5", "A1 B2 C3 A7 B8", ["A7 B8"]),
    ("NEXT(A, B? b, !C, D) WITHIN 10", "A1 C2 D3", []),
    # inside others, and negated; what also names an outer event is asked of the match that was found
    ("SEQ(D, NEXT(A, B)) WITHIN 10", "D1 A2 A3 B4 B5", ["D1 A2 B4", "D1 A3 B4"]),
    ("SEQ(D d, NEXT(A a, B b)) WHERE b.id = d.id WITHIN 10", "D1:1 A2 B3:2 B4:1", []),
    ("SEQ(D, !NEXT(A, B), C) WITHIN 10", "D1 A2 B3 C4", []),
    ("AND(NEXT(A, B), D) WITHIN 10", "A1 D2 B3 B4", ["A1 B3 D2"]),
    ("OR(NEXT(A, B), D) WITHIN 10", "A1 B2 B3 D4", ["A1 B2 -", "- - D4"]),
    ("SEQ(D, NEXT(A, B), [id]) WITHIN 10", "D1:1 A2:1 B3:2 B4:1", ["D1 A2 B4"]),
]

STRICTS = [
    # consecutive positions, whatever their times
    ("STRICT(A, B) WITHIN 10", "A1 B2 A3 C4 B5", ["A1 B2"]),
    ("STRICT(A, B) WITHIN 10", "A1 B1", ["A1 B1"]),
    ("STRICT(A, B) PARTITION BY id WITHIN 10", "A1:1 C2:2 B3:1", ["A1 B3"]),
    ("STRICT(A, B) WITHIN 2", "A1 B3", []),
    # more before fewer, with backtracking; reluctant the other way round
    ("STRICT(A, B+ b) WITHIN 10", "A1 B2 B3 C4", ["A1 [B2 B3]"]),
    ("STRICT(A, B+? b) WITHIN 10", "A1 B2 B3 C4", ["A1 [B2]"]),
    ("STRICT(A, B+ b, B c) WITHIN 10", "A1 B2 B3 B4", ["A1 [B2 B3] B4"]),
    ("STRICT(A, B+? b, C) WITHIN 10", "A1 B2 B3 C4", ["A1 [B2 B3] C4"]),
    ("STRICT(A, B? b, C) WITHIN 10", "A1 C2 A3 B4 C5", ["A1 - C2", "A3 B4 C5"]),
    ("STRICT(A, B* b) WITHIN 2", "A1 B2 B3", ["A1 [B2]"]),
    ("STRICT(B{2} b) WITHIN 10", "B1 B2 B3", ["[B1 B2]", "[B2 B3]"]),
    # alternatives in the order in which they are written
    ("STRICT(OR(B x, B y), C) WITHIN 10", "B1 C2", ["B1 - C2"]),
    # predicates take part in the search
    ("STRICT(A, B+ b) WHERE b.id > PREV(b.id) WITHIN 10", "A1 B2:1 B3:2 B4:2", ["A1 [B2 B3]"]),
    ("STRICT(A, B+ b) WHERE LAST(b.id) = 1 WITHIN 10", "A1 B2:1 B3:1 B4:2", ["A1 [B2 B3]"]),
    ("STRICT(OR(B x, B y), C c) WHERE y.id = c.id WITHIN 10", "B1:1 C2:1", ["- B1 C2"]),
    ("SEQ(D, !STRICT(A, B), C) WITHIN 10", "D1 A2 X3 B4 C5", ["D1 C5"]),
    ("SEQ(D, STRICT(A, B)) WITHIN 10", "D1 A2 B3 B4", ["D1 A2 B3"]),
]

SKIPS = [
    ("SEQ(A, B) SKIP PAST LAST WITHIN 10", "A1 A2 B3 A4 B5", ["A1 B3", "A4 B5"]),
    ("SEQ(A, B) SKIP TO NEXT WITHIN 10", "A1 A2 B3 B4", ["A1 B3", "A2 B3"]),
    ("SEQ(A a, B+ b) SKIP TO NEXT WITHIN 10", "A1 B2 B3", ["A1 [B2]"]),
    ("SEQ(A a, A b, B c) SKIP TO LAST b WITHIN 10", "A1 A2 A3 B4", ["A1 A2 B4", "A2 A3 B4"]),
    ("SEQ(A a, B+ b) SKIP TO FIRST b WITHIN 10", "A1 A2 B3 A4 B5", ["A1 [B3]", "A4 [B5]"]),
    ("SEQ(A a, B? b, C) SKIP TO FIRST b WITHIN 10", "A1 C2 B3 C4", ["A1 - C2", "A1 - C4", "A1 B3 C4"]),
    # in each partition by itself
    ("SEQ(A, B) PARTITION BY id SKIP PAST LAST WITHIN 10", "A1:1 A1:2 A2:1 B3:1 B4:2 B5:1", ["A1 B3", "A1 B4"]),
    ("NEXT(A, B) SKIP PAST LAST WITHIN 10", "A1 A2 B3 A4 B5", ["A1 B3", "A4 B5"]),
]

ORDERS = [
    # ORDER BY says what is after what among equal times, nulls last
    ("SEQ(A, B) ORDER BY id WITHIN 10", "B1:2 A1:1", ["A1 B1"]),
    ("SEQ(A, B) ORDER BY id WITHIN 10", "A1:1 B1:1", []),
    ("SEQ(A, B) ORDER BY id WITHIN 10", "B1:- A1:1", ["A1 B1"]),
    ("SEQ(A, B) ORDER BY id WITHIN 10", "A1:- B1:-", []),
    ("STRICT(A, B) ORDER BY id WITHIN 10", "C1:2 B1:3 A1:1 B2:4", []),
    ("STRICT(A, B) ORDER BY id WITHIN 10", "C1:3 B1:2 A1:1", ["A1 B1"]),
    ("SEQ(A, !C, B) ORDER BY id WITHIN 10", "A1:1 B1:3 C1:2", []),
    ("SEQ(A, !C, B) ORDER BY id WITHIN 10", "A1:1 B1:2 C1:2", ["A1 B1"]),
    ("SEQ(A, B) ORDER BY id WITHIN 2 EVENTS", "B1:3 A1:1 C1:2", []),
    ("NEXT(A, B) ORDER BY id WITHIN 1", "B1:3 A1:1 B1:2 B2:0", ["A1 B1"]),
]

CASES = SEQUENCES + WINDOWS + OPERATORS + NEGATIONS + NEGATIONS_IN_AND + SAME + PREDICATES
RUNS = REPETITIONS + NEXTS + STRICTS + SKIPS + ORDERS

# The query, the stream, and of every run the events of its variables and how far it got.
PARTIAL = [
    ("NEXT(A, B, C) KEEP PARTIAL WITHIN 5", "A1 B2 C3 A7 B8 A20", ["A1 B2 C3 3", "A7 B8 - 2", "A20 - - 1"]),
    ("NEXT(A, B+ b, C) KEEP PARTIAL WITHIN 5", "A1 B2 B3 A10", ["A1 [B2 B3] - 2", "A10 [] - 1"]),
    ("NEXT(A, B? b) KEEP PARTIAL WITHIN 5", "A1", ["A1 - 2"]),
    ("NEXT(A, !X, B, C) KEEP PARTIAL WITHIN 9", "A1 X2 B3 C4 A10 B11", ["A1 - - 1", "A10 B11 - 2"]),
    ("NEXT(A, B, !X, C) KEEP PARTIAL WITHIN 9", "A1 B2 X3 C4", ["A1 B2 - 2"]),
    ("NEXT(A, B? b, !X, C) KEEP PARTIAL WITHIN 9", "A1 X2 C4", ["A1 - - 1"]),
    ("NEXT(A, B, !X) KEEP PARTIAL WITHIN 9", "A1 B2 X3", ["A1 B2 2"]),
    ("NEXT(A a, B b, [id]) KEEP PARTIAL WITHIN 9", "A1:1 B2:2", ["A1 - 1"]),
]

# The query, the stream, the rows of the result.
FUNCTIONS = "SUM(b.id), AVG(b.id), MIN(b.id), MAX(b.id)"
AGGREGATES = [
    # ON TRIGGER: a row at every B, over the window that ends there
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B3 B4", [(2, 1), (3, 2), (4, 0)]),
    ("SEQ(A, B) AGG COUNT WITHIN 3 EMIT ON TRIGGER", "B1 A2", [(1, 0)]),
    # two triggers with one timestamp give one row; events of the trigger's own time all count
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B2", [(2, 2)]),
    # what fails its own predicates is no trigger; what fails others is
    ("SEQ(A a, B b, b.id > 1) AGG COUNT(*) WITHIN 9", "A1 B2:1 B3:2", [(3, 1)]),
    ("SEQ(A a, B b) WHERE b.id > 1 AGG COUNT(*) WITHIN 9", "A1 B2:1 B3:2", [(3, 1)]),
    ("SEQ(A a, B b, b.id > a.id) AGG COUNT(*) WITHIN 9", "A1:1 B2:1 B3:2", [(2, 0), (3, 1)]),
    # trailing negation: the matches not cancelled so far
    ("SEQ(A, B, !C) AGG COUNT(*) WITHIN 9", "A1 B2 C3 B4", [(2, 1), (4, 1)]),
    ("SEQ(A, B, !C) AGG COUNT(*) WITHIN 9", "A1 B2 B4 C4", [(2, 1), (4, 1)]),
    ("SEQ(A, !C, B) AGG COUNT(*) WITHIN 9", "A1 C2 B3 A4 B5", [(3, 0), (5, 1)]),
    # all of a BETWEEN is part of the negation that it names, and a trigger's own predicate names nothing else
    ("SEQ(A a, !C c, B b, a.id BETWEEN 1 AND c.id) AGG COUNT(*) WITHIN 9", "A1:0 B3 A4:1 C5:2 B6", [(3, 1), (6, 2)]),
    ("SEQ(A a, !C c, B b) WHERE NOT (a.id < 1 OR c.id < 1) AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:0 A2:1 C3:1 B5", [(1,)]),
    ("SEQ(A a, B b) WHERE NOT (a.id != b.id OR b.id < 1) AGG COUNT(*) WITHIN 9", "A1:1 B2:0 B3:1", [(2, 0), (3, 1)]),
    # a single event without an id is cancelled by nothing, and by nothing of another key
    ("SEQ(A a, !B b, [id]) AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:- A2:1 A3:2 B4:1 B5:-", [(2,)]),
    # not a SEQ that ends in a type: the times at which matches end
    ("AND(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B3 A5", [(2, 1), (3, 2), (5, 1)]),
    ("SEQ(A, OR(B, C)) AGG COUNT(*) WITHIN 9", "B1 A2 B3 C4", [(3, 1), (4, 2)]),
    # functions: null is skipped, over nothing they are null
    (f"SEQ(A, B b) AGG COUNT(*), {FUNCTIONS} WITHIN 9 EMIT TOTAL", "A1 B2:1 B3:- B4:4", [(3, 5, 2.5, 1, 4)]),
    (f"SEQ(A, B b) AGG COUNT(*), {FUNCTIONS} WITHIN 9 EMIT TOTAL", "A1", [(0, None, None, None, None)]),
    # how far values lie apart: null is skipped, and one value lies apart from nothing
    ("SEQ(A, B b) AGG VARIANCE(b.id), STDDEV(b.id) WITHIN 9 EMIT TOTAL", "A1 B2:2 B3:- B4:4 B5:6", [(4.0, 2.0)]),
    (
        "SEQ(A, B b) AGG VARIANCE(b.id), STDDEV(b.id) WITHIN 9",
        "A1 B2:- B3:5 B4:5 B5:8",
        [
            (2, None, None),
            (3, None, None),
            (4, 0.0, 0.0),
            (5, 3.0, 3.0**0.5),
        ],
    ),
    ("SEQ(A, B b) GROUP BY b.id AGG STDDEV(b.id) WITHIN 9 EMIT TOTAL", "A1 A2 B3:7 B4:8", [(7, 0.0), (8, 0.0)]),
    ("SEQ(A, B b) AGG COUNT(*) HAVING STDDEV(b.id) > 1 WITHIN 9", "A1 B2:1 B3:2 B4:5", [(4, 3)]),
    (
        "SEQ(A, B b) AGG VARIANCE(b.id) WITHIN 9 EMIT TOTAL",
        "A1 B2:9223372036854775807 B3:9223372036854775805 B4:9223372036854775803",
        [(4.0,)],
    ),
    # a match counts once each
    ("SEQ(A, B b) AGG SUM(b.id) WITHIN 9 EMIT TOTAL", "A1 A2 B3:5", [(10,)]),
    ("SEQ(A a, B) AGG SUM(a.id) WITHIN 9 EMIT TOTAL", "A1:9223372036854775807 B2 B3", [(18446744073709551614,)]),
    # TOTAL: all matches of the input, one row per group
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3 EMIT TOTAL", "A1 B2 B3 A5 B6", [(3,)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:1 A2:2 A3:- B4 B5", [(1, 2), (2, 2), (None, 2)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:1", []),
    ("OR(A a, B b) GROUP BY a.type AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1 B2 B3", [("A", 1), (None, 2)]),
    # EVERY: at the multiples, over the window (t - W, t]
    ("SEQ(A, B) AGG COUNT(*) WITHIN 4 EMIT EVERY 3", "A1 B2 B4 B7", [(3, 1), (6, 0), (9, 0)]),
    ("SEQ(A, B) AGG COUNT(*) WITHIN 6 EMIT EVERY 3", "A1 B3 B4 B6", [(3, 1), (6, 3)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT EVERY 4", "A1:1 B2 A3:2 B6", [(4, 1, 1), (8, 1, 2), (8, 2, 1)]),
    ("SEQ(A, B) AGG COUNT(*) WITHIN 4 EMIT EVERY 3", "", []),
    # GROUP BY with ON TRIGGER: the groups with a new match ...
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 3", "A1:1 B2 A3:2 B4", [(2, 1, 1), (4, 2, 1)]),
    # ... and the trigger's own group even at 0
    ("SEQ(A a, B b) GROUP BY b.id AGG COUNT(*) WITHIN 3", "B1:7 A2 B3:7 B3:8 B9:7", [(1, 7, 0), (3, 7, 1), (3, 8, 1), (9, 7, 0)]),
    (
        "SEQ(A a, B b) PARTITION BY id GROUP BY id AGG COUNT(*) WITHIN 9",
        "A1:1 B2:2 B3:1 B4:- B5:1",
        [(2, 2, 0), (3, 1, 1), (5, 1, 2)],
    ),
    # PARTITION BY alone restricts the matches and does not split the result
    ("SEQ(A a, B b) PARTITION BY id AGG COUNT(*) WITHIN 9", "A1:1 A1:2 B2:2 B2:1 B4:-", [(2, 2)]),
    # tuple-count window: the last n events up to the trigger's time
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3 EVENTS", "A1 B2 B3 B4", [(2, 1), (3, 2), (4, 0)]),
    # HAVING filters the rows
    ("SEQ(A, B) AGG COUNT(*) HAVING COUNT(*) > 1 WITHIN 3", "A1 B2 B3 B4", [(3, 2)]),
    ("SEQ(A, B b) AGG SUM(b.id) AS total HAVING total > 1 WITHIN 9", "A1 B2:1 B3:1", [(3, 2)]),
]
