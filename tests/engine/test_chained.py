"""What is remembered to be asked by what is new: questions are answered as by going through all that was put in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.engine import chained as module
from seqube.engine.chained import Chained


@dataclass
class Entry:
    begin: int
    end: int
    key: int | None
    rows: tuple[int, int]


@given(data=st.data(), keyed=st.booleans())
def test_questions_find_what_was_put_in_and_not_forgotten(data: st.DataObject, keyed: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLACK", 0)
        check(data, keyed)


def check(data: st.DataObject, keyed: bool) -> None:
    series, known, time, forgotten = Chained(2, int(keyed)), list[Entry](), 0, -1
    for _ in range(data.draw(st.integers(1, 6))):
        ends = sorted(data.draw(st.lists(st.integers(time, time + 4), max_size=5)))
        time = max([time, *ends])
        new = []
        for end in ends:
            begin = data.draw(st.integers(end - 6, end))
            new.append(
                Entry(begin, end, data.draw(st.sampled_from([0, 1, 2, None])) if keyed else 0, (len(known) + len(new), begin))
            )
        codes = coded(series, [entry.key for entry in new]) if keyed else None
        rows = np.array([entry.rows for entry in new], np.int64).reshape(-1, 2).T
        series.append(rows, *(np.array([getattr(entry, name) for entry in new], np.int64) for name in ("begin", "end")), codes)
        known += new
        if data.draw(st.booleans()):
            forgotten = data.draw(st.integers(forgotten, time))
            series.drop(forgotten)
        asked = data.draw(
            st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.integers(forgotten, time + 1), st.integers(0, 8)), max_size=4)
        )
        lows = np.array([low for _, low, _ in asked], np.int64)
        highs = lows + np.array([length for _, _, length in asked], np.int64)
        codes = coded(series, [key for key, _, _ in asked]) if keyed else None
        found = series.find(codes, lows, highs)
        out = np.empty((3, int(found[1].sum())), np.int64)
        series.join(np.arange(len(asked))[None, :], lows, found, np.array([0, 2]), out)
        expected = [
            (entry.rows[0], number, entry.rows[1])
            for number, (key, low, length) in enumerate(asked)
            for entry in known
            if low < entry.begin and entry.end < low + length and (not keyed or entry.key == key)
        ]
        assert sorted(map(tuple, out.T.tolist())) == sorted(expected)
        assert series.find(codes, lows, highs, most=1)[1].tolist() == [
            int(any(row[1] == q for row in expected)) for q in range(len(asked))
        ]


def coded(series: Chained, keys: list[int | None]) -> np.ndarray:
    import pyarrow as pa

    assert series.keys is not None
    return series.keys.code([pa.array(keys, pa.int64())])
