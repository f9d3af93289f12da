"""What all results of a trigger ask balanced views for, gathered before any of these results is gone on with: the first pass.

A request is an interval [low, high) for which one view is to be complete: that of a sub-query, or of the sub-query and an outer
value, which `EVENT` is bound to. Those of one view are chained, so that another one is held against them alone, and joined with one
that it touches. They lie on the arena until the views are complete for them.

Cost: a binding per result, and the requests of its view that it does not touch. Invariant: the word of a view names its latest
request, or nothing that is one of these: what an earlier pass wrote there leads to another view's, or beside all of them.

    Paper (sliding views)            | Here
    Figure 17, maximum interval      | `add_request`
    value partitions                 | a chain of requests for each value
"""

from __future__ import annotations

from seqube.engine.jit import kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.views.intervals import view_of
from seqube.engine.views.program import (
    BALANCED,
    KINDS,
    MODES,
    SCAN,
    SLAB_REQUEST,
    SLAB_WORDS,
    SLABS,
    TOP,
    VIEW_VARIABLE,
    bind,
    bound,
    reserve,
    view,
    word,
)

VIEW_ASKED, EVENT, FROM, UPTO, OF_SAME_VIEW, REQUEST_WORDS = range(6)  # EVENT: -1 where the view is not divided


@kernel_part
def has_first_pass(p: Ints, node: int) -> bool:
    return word(p, MODES, node) == BALANCED and word(p, KINDS, node) != SCAN


@kernel_part
def add_request(p: Ints, w: Ints, arena: Ints, mark: int, node: int, low: int, high: int) -> None:
    """Join an interval of the present outer value's view into the requests, which begin at `mark`."""
    u = view_of(p, w, node)
    if u < 0 or low >= high:
        return
    latest = w[SLABS] + SLAB_WORDS * u + SLAB_REQUEST
    at = w[latest]
    if at < mark or at >= w[TOP] or (at - mark) % REQUEST_WORDS != 0 or arena[at + VIEW_ASKED] != u:
        at = -1
    earlier = at
    while at >= 0:
        if low <= arena[at + UPTO] and arena[at + FROM] <= high:
            arena[at + FROM], arena[at + UPTO] = min(arena[at + FROM], low), max(arena[at + UPTO], high)
            return
        at = arena[at + OF_SAME_VIEW]
    reserve(w, arena, REQUEST_WORDS)
    at = w[TOP]
    w[TOP] = at + REQUEST_WORDS
    w[latest] = at
    variable = view(p, node, VIEW_VARIABLE)
    arena[at + VIEW_ASKED], arena[at + EVENT] = u, bound(w, variable) if variable >= 0 else -1
    arena[at + FROM], arena[at + UPTO], arena[at + OF_SAME_VIEW] = low, high, earlier


@kernel_part
def bind_request(p: Ints, w: Ints, arena: Ints, node: int, at: int) -> None:
    """Bind the outer value of the view that a request is for."""
    if arena[at + EVENT] >= 0:
        bind(w, view(p, node, VIEW_VARIABLE), arena[at + EVENT])
