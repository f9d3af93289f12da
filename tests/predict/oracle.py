"""The slow truth about episode rules, tried out combination by combination from the page on meaning.

How Definition 2 and "enclosed" are read here:

- An occurrence maps each vertex to an instance of its event so that u -> v implies t(u) < t(v) and the span is at most `within`.
  Its interval is [smallest time, largest time]. Equal times are never one after the other, but unordered vertices may share one.
- Interval b lies inside interval a if a.start <= b.start and b.end <= a.end and they differ. An occurrence is minimal if no other
  occurrence's interval lies inside its own. All minimal occurrences of one end time share their interval, so "one per end time"
  is one per interval, and which vertex took which instance does not show in a prediction.
- The prediction of [s, e] is the open interval (e, s + horizon). One that lies inside (or equals) an earlier one is not reported;
  one that holds nothing (e >= s + horizon) is no prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product


def occurrences(
    stream: Sequence[tuple[str, int]], vertices: Mapping[str, str], edges: Sequence[tuple[str, str]], within: int
) -> set[tuple[int, int]]:
    """The intervals of all occurrences."""
    aliases = list(vertices)
    choices = [[time for name, time in stream if name == vertices[alias]] for alias in aliases]
    intervals = set()
    for times in product(*choices):
        at = dict(zip(aliases, times, strict=True))
        if all(at[u] < at[v] for u, v in edges) and max(times) - min(times) <= within:
            intervals.add((min(times), max(times)))
    return intervals


def minimal(intervals: set[tuple[int, int]]) -> set[tuple[int, int]]:
    def lies_inside(b: tuple[int, int], a: tuple[int, int]) -> bool:
        return a[0] <= b[0] and b[1] <= a[1] and a != b

    return {a for a in intervals if not any(lies_inside(b, a) for b in intervals)}


def predictions(
    stream: Sequence[tuple[str, int]], vertices: Mapping[str, str], edges: Sequence[tuple[str, str]], within: int, horizon: int
) -> list[tuple[int, int, int, int]]:
    """(start, end, earliest, latest) of every reported prediction, by end time."""
    reported: list[tuple[int, int, int, int]] = []
    for start, end in sorted(minimal(occurrences(stream, vertices, edges, within)), key=lambda interval: interval[1]):
        prediction = (start, end, end, start + horizon)
        is_told_before = any(earlier <= end and start + horizon <= latest for _, _, earlier, latest in reported)
        if end < start + horizon and not is_told_before:
            reported.append(prediction)
    return reported
