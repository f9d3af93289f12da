"""The floor of cost: each query of the peer suite as a loop that knows nothing but that query, from type codes to an Arrow table.

These are what a person would write by hand for exactly this pattern, window and key: arrays of row numbers per type, nested loops,
output grown by doubling, then Arrow's `take` for the table. No predicates, no generality. Seqube is held against them in one run.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]


@numba.njit(cache=True)
def _grown(out: Ints) -> Ints:
    bigger = np.empty((out.shape[0], 2 * out.shape[1]), np.int64)
    bigger[:, : out.shape[1]] = out
    return bigger


@numba.njit(cache=True)
def _three(types: Ints, times: Ints, codes: Ints, window: int) -> tuple[Ints, int]:
    """SEQ(codes[0], codes[1], codes[2]) WITHIN window."""
    first, second = np.empty(len(types), np.int64), np.empty(len(types), np.int64)
    n_first = n_second = begin = count = 0
    out = np.empty((3, 1 << 20), np.int64)
    for row in range(len(types)):
        code = types[row]
        if code == codes[0]:
            first[n_first] = row
            n_first += 1
        elif code == codes[1]:
            second[n_second] = row
            n_second += 1
        elif code == codes[2]:
            oldest = times[row] - window
            while begin < n_first and times[first[begin]] <= oldest:
                begin += 1
            if begin == n_first:
                continue
            j = n_second - 1
            while j >= 0 and times[second[j]] > times[first[begin]]:
                i = begin
                while i < n_first and times[first[i]] < times[second[j]]:
                    if count == out.shape[1]:
                        out = _grown(out)
                    out[0, count], out[1, count], out[2, count] = first[i], second[j], row
                    count += 1
                    i += 1
                j -= 1
    return out, count


@numba.njit(cache=True)
def _four(types: Ints, times: Ints, codes: Ints, window: int) -> tuple[Ints, int]:
    first, second, third = np.empty(len(types), np.int64), np.empty(len(types), np.int64), np.empty(len(types), np.int64)
    n_first = n_second = n_third = begin = count = 0
    out = np.empty((4, 1 << 20), np.int64)
    for row in range(len(types)):
        code = types[row]
        if code == codes[0]:
            first[n_first] = row
            n_first += 1
        elif code == codes[1]:
            second[n_second] = row
            n_second += 1
        elif code == codes[2]:
            third[n_third] = row
            n_third += 1
        elif code == codes[3]:
            oldest = times[row] - window
            while begin < n_first and times[first[begin]] <= oldest:
                begin += 1
            if begin == n_first:
                continue
            k = n_third - 1
            while k >= 0 and times[third[k]] > times[first[begin]]:
                j = n_second - 1
                while j >= 0 and times[second[j]] >= times[third[k]]:
                    j -= 1
                while j >= 0 and times[second[j]] > times[first[begin]]:
                    i = begin
                    while i < n_first and times[first[i]] < times[second[j]]:
                        if count == out.shape[1]:
                            out = _grown(out)
                        out[0, count], out[1, count], out[2, count], out[3, count] = first[i], second[j], third[k], row
                        count += 1
                        i += 1
                    j -= 1
                k -= 1
    return out, count


@numba.njit(cache=True)
def _five(types: Ints, times: Ints, codes: Ints, window: int) -> tuple[Ints, int]:
    rows = np.empty((4, len(types)), np.int64)
    n = np.zeros(4, np.int64)
    begin = count = 0
    out = np.empty((5, 1 << 20), np.int64)
    for row in range(len(types)):
        code = types[row]
        if code == codes[4]:
            oldest = times[row] - window
            while begin < n[0] and times[rows[0, begin]] <= oldest:
                begin += 1
            if begin == n[0]:
                continue
            start = times[rows[0, begin]]
            m = n[3] - 1
            while m >= 0 and times[rows[3, m]] > start:
                k = n[2] - 1
                while k >= 0 and times[rows[2, k]] >= times[rows[3, m]]:
                    k -= 1
                while k >= 0 and times[rows[2, k]] > start:
                    j = n[1] - 1
                    while j >= 0 and times[rows[1, j]] >= times[rows[2, k]]:
                        j -= 1
                    while j >= 0 and times[rows[1, j]] > start:
                        i = begin
                        while i < n[0] and times[rows[0, i]] < times[rows[1, j]]:
                            if count == out.shape[1]:
                                out = _grown(out)
                            out[0, count], out[1, count], out[2, count] = rows[0, i], rows[1, j], rows[2, k]
                            out[3, count], out[4, count] = rows[3, m], row
                            count += 1
                            i += 1
                        j -= 1
                    k -= 1
                m -= 1
        else:
            for slot in range(4):
                if code == codes[slot]:
                    rows[slot, n[slot]] = row
                    n[slot] += 1
    return out, count


@numba.njit(cache=True)
def _three_by_id(types: Ints, times: Ints, ids: Ints, codes: Ints, window: int, n_ids: int) -> tuple[Ints, int]:
    """SEQ of three with the same id: a chain of rows per id and type, newest first."""
    newest = np.full((2, n_ids), -1, np.int64)
    older = np.full(len(types), -1, np.int64)
    count = 0
    out = np.empty((3, 1 << 20), np.int64)
    for row in range(len(types)):
        code, key = types[row], ids[row]
        if code == codes[0] or code == codes[1]:
            slot = 0 if code == codes[0] else 1
            older[row] = newest[slot, key]
            newest[slot, key] = row
        elif code == codes[2]:
            oldest = times[row] - window
            j = newest[1, key]
            while j >= 0 and times[j] > oldest:
                i = newest[0, key]
                while i >= 0 and times[i] >= times[j]:
                    i = older[i]
                while i >= 0 and times[i] > oldest:
                    if count == out.shape[1]:
                        out = _grown(out)
                    out[0, count], out[1, count], out[2, count] = i, j, row
                    count += 1
                    i = older[i]
                j = older[j]
    return out, count


@numba.njit(cache=True)
def _three_with_gap(types: Ints, times: Ints, codes: Ints, window: int) -> tuple[Ints, int]:
    """SEQ(codes[0], codes[1], !codes[2], codes[3]): nothing forbidden since the second event."""
    first, second = np.empty(len(types), np.int64), np.empty(len(types), np.int64)
    n_first = n_second = begin = count = 0
    forbidden = np.int64(-1)
    out = np.empty((3, 1 << 20), np.int64)
    for row in range(len(types)):
        code = types[row]
        if code == codes[0]:
            first[n_first] = row
            n_first += 1
        elif code == codes[1]:
            second[n_second] = row
            n_second += 1
        elif code == codes[2]:
            forbidden = times[row]
        elif code == codes[3]:
            oldest = times[row] - window
            while begin < n_first and times[first[begin]] <= oldest:
                begin += 1
            if begin == n_first:
                continue
            j = n_second - 1
            while j >= 0 and times[second[j]] > times[first[begin]] and times[second[j]] >= forbidden:
                i = begin
                while i < n_first and times[first[i]] < times[second[j]]:
                    if count == out.shape[1]:
                        out = _grown(out)
                    out[0, count], out[1, count], out[2, count] = first[i], second[j], row
                    count += 1
                    i += 1
                j -= 1
    return out, count


@numba.njit(cache=True)
def _count_three(types: Ints, times: Ints, codes: Ints, window: int) -> Ints:
    """How many SEQ(codes[0], codes[1], codes[2]) there are at each event of the last type: counters for every live start."""
    starts, pairs, triples = np.empty(len(types), np.int64), np.empty(len(types), np.int64), np.empty(len(types), np.int64)
    n_starts = begin = n_out = 0
    out = np.empty(len(types), np.int64)
    for row in range(len(types)):
        code = types[row]
        while begin < n_starts and starts[begin] <= times[row] - window:
            begin += 1
        if code == codes[0]:
            starts[n_starts], pairs[n_starts], triples[n_starts] = times[row], 0, 0
            n_starts += 1
        elif code == codes[1]:
            for i in range(begin, n_starts):
                pairs[i] += 1
        elif code == codes[2]:
            total = 0
            for i in range(begin, n_starts):
                triples[i] += pairs[i]
                total += triples[i]
            out[n_out] = total
            n_out += 1
    return out[:n_out]


def count_three(types: Ints, times: Ints, code_of: dict[str, int], window: int) -> Ints:
    """The counts of DELL, IPIX, QQQ at every QQQ. Times must all differ."""
    return _count_three(types, times, np.array([code_of[name] for name in ("DELL", "IPIX", "QQQ")], np.int64), window)


def match(task: str, types: Ints, times: Ints, ids: Ints, code_of: dict[str, int]) -> list[Ints]:
    """The matches of a query of the peer suite: the row numbers of each of its variables."""
    names = {"a": "DELL IPIX QQQ", "b": "DELL IPIX QQQ AMAT", "c": "DELL IPIX QQQ AMAT MSFT"}
    names |= {"d": names["a"], "e": names["a"], "f": names["b"]}
    codes = np.array([code_of[name] for name in names[task].split()], np.int64)
    match task:
        case "a" | "d":
            out, count = _three(types, times, codes, 100 if task == "a" else 500)
        case "b":
            out, count = _four(types, times, codes, 100)
        case "c":
            out, count = _five(types, times, codes, 100)
        case "e":
            out, count = _three_by_id(types, times, ids, codes, 10_000, 1_000)
        case _:
            out, count = _three_with_gap(types, times, codes, 100)
    return [column[:count] for column in out]


def as_table(rows: list[Ints], table: pa.Table) -> pa.Table:
    """Matches as a user gets them: start, end, and a struct with the event's own columns for each variable."""
    time = table.column("ts").chunk(0)
    indices = [pa.array(column) for column in rows]
    columns = {"start": time.take(indices[0]), "end": time.take(indices[-1])}
    for name, index in zip("abcde", indices, strict=False):
        fields = [column.chunk(0).take(index) for column in table.columns]
        columns[name] = pa.StructArray.from_arrays(fields, names=table.column_names)
    return pa.table(columns)
