"""A sequence as SQL joins that an engine can hash: the way that is quickest in the engines that have no patterns.

A join on `a.ts < b.ts AND c.ts < a.ts + window` alone compares everything with everything. So time is cut into buckets of one
window; a match belongs to the bucket of its first event, and its other events lie in that bucket or the next. Every event but the
first is therefore listed under two buckets, and all joins are on equality of the bucket (and of the id, where the query asks for
it), with the inequalities behind. No match is found twice, since its first event has one bucket.
"""

from __future__ import annotations

from itertools import pairwise

from bench.peers import FACTORS, MODULUS, Task


def listed(slot: int, task: Task, bucket: str, unnest: str) -> str:
    """One slot's events with their bucket: the first slot's own, for the others also the one before."""
    own = bucket.format(window=task.window)
    buckets = own if slot == 0 else unnest.format(own=own)
    return f"t{slot} AS (SELECT row, ts, id, {buckets} AS bucket FROM events WHERE type = '{task.types[slot]}')"


def joined(task: Task) -> str:
    """FROM and WHERE over the positive slots t0, t1, ...; the last is named by `last_slot`."""
    slots = [slot for slot in range(len(task.types)) if slot != task.negated]
    text = f"FROM t{slots[0]}"
    for before, slot in pairwise(slots):
        key = f" AND t{slot}.id = t0.id" if task.keyed else ""
        text += (
            f" JOIN t{slot} ON t{slot}.bucket = t0.bucket{key} AND t{slot}.ts > t{before}.ts AND t{slot}.ts < t0.ts + {task.window}"
        )
    return text


def by_asof(task: Task, bucket: str, unnest: str, nearest: str) -> str:
    """The whole statement; `nearest` lists the events before the gap with the first forbidden one after each, an ASOF join."""
    parts = [listed(slot, task, bucket, unnest) for slot in range(len(task.types)) if slot != task.negated]
    text = joined(task)
    if task.negated is not None:
        # The first forbidden event after the one before the gap must not come before the one after it.
        before, after = task.negated - 1, task.negated + 1
        parts.append(f"x AS (SELECT 1 AS one, ts AS forbidden FROM events WHERE type = '{task.types[task.negated]}')")
        parts.append(f"g AS ({nearest.format(before=f't{before}')})")
        text = text.replace(f"JOIN t{before} ON", f"JOIN g AS t{before} ON")
        text += f" AND (t{before}.forbidden IS NULL OR t{before}.forbidden >= t{after}.ts)"
    return f"WITH {', '.join(parts)} SELECT {rows_of(task)} {text}"


def rows_of(task: Task) -> str:
    return ", ".join(f"t{slot}.row AS r{slot}" for slot in range(len(task.types)) if slot != task.negated)


def checksum(task: Task, modulo: str) -> str:
    """The answer's checksum over columns r0, r1, ...; `modulo` is how the engine writes it."""
    slots = [slot for slot in range(len(task.types)) if slot != task.negated]
    mixed = " + ".join(f"r{slot} * {factor}" for slot, factor in zip(slots, FACTORS, strict=False))
    mixed = modulo.format(value=mixed, modulus=MODULUS)
    return "coalesce(sum(" + modulo.format(value=f"{mixed} * {mixed}", modulus=MODULUS) + "), 0)"
