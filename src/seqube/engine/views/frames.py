"""Calls without recursion: an evaluation is a frame on a stack, and is gone on with whenever what it asked for is known.

The operators of a nested query evaluate each other, to any depth. Here a step of an evaluation either finishes it or begins another
one and returns (`call`); the loop that drives them (`iterative.evaluate`) then goes on with whatever lies on top of the stack. What
an evaluation has to remember lies in its frame, in words with names, and `STAGE` says what it was waiting for.

Cost: a dozen words per call. Invariant: an evaluation leaves the arena as it was, save the records it pushed.
"""

from __future__ import annotations

from seqube.engine.jit import kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.views.program import FRAME, FRAME_WORDS, ITERATIVE, KINDS, MODES, RETURNED, SCAN, TOP, word

# What an evaluation is of:
#   COMPUTE   the instances of a node in an interval, from scratch; what it returns is how many were pushed
#   VIEW      the same out of the node's view, which is made complete for the interval first; with a limit of 0, that alone
#   SEEK      whether a negated sub-query has an instance in its scope: 1 or 0
COMPUTE, VIEW, SEEK = range(3)

# What is asked: instances of node (or negation) OF that lie in [LOW, HIGH), end at SINCE or later and begin before UNTIL; LIMIT of
# them are enough. MARK is where its records begin on the arena.
(ENTRY, OF, LOW, HIGH, SINCE, UNTIL, LIMIT, STAGE, MARK, N_FOUND, NEXT,
 OWN_END, N_RESULTS, RESULT, REQUEST, OUT, JOINED, LEVEL, MATCH_FIRST, MATCH_LAST, COUNTERS) = range(21)  # fmt: skip
VIEW_NUMBER, COVER_LOW, COVER_HIGH, AGAIN_LOW, AGAIN_SINCE = range(OWN_END, OWN_END + 5)  # VIEW and SEEK share words with COMPUTE
BEGIN = 0  # the first stage of all


@kernel_part
def call(w: Ints, entry: int, of: int, low: int, high: int, since: int, until: int, limit: int) -> None:
    """Begin an evaluation. The caller returns, and finds the answer in RETURNED when it is gone on with."""
    f = w[FRAME] + w[FRAME_WORDS]
    w[FRAME] = f
    w[f + ENTRY], w[f + OF], w[f + LOW], w[f + HIGH] = entry, of, low, high
    w[f + SINCE], w[f + UNTIL], w[f + LIMIT] = since, until, limit
    w[f + STAGE], w[f + MARK], w[f + N_FOUND] = BEGIN, w[TOP], 0


@kernel_part
def ask(p: Ints, w: Ints, node: int, low: int, high: int, since: int, until: int, limit: int) -> None:
    """Begin to evaluate a sub-query by its strategy: from scratch, or out of its view."""
    is_iterative = word(p, MODES, node) == ITERATIVE or word(p, KINDS, node) == SCAN
    call(w, COMPUTE if is_iterative else VIEW, node, low, high, since, until, limit)


@kernel_part
def finish(w: Ints, answer: int) -> None:
    w[RETURNED] = answer
    w[FRAME] -= w[FRAME_WORDS]
