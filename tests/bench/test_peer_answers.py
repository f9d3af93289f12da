"""Every peer finds what every combination tried by hand gives, also where events share a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench.peers import Answer, Peer, Task, answer_of, load, peer_names, tasks

SLOW = {"flink_cep", "flink_filtered", "spark_joins"}  # they start a JVM


@cache
def make_events(n: int, seed: int, ties: bool) -> pa.Table:
    rng = np.random.default_rng(seed)
    steps = rng.integers(0 if ties else 1, 20, n)
    names = np.array(["DELL", "IPIX", "QQQ", "AMAT", "MSFT", "ORCL"])
    return pa.table(
        {
            "row": np.arange(n),
            "ts": np.cumsum(steps).astype(np.int64),
            "type": names[rng.integers(0, len(names), n)],
            "id": rng.integers(0, 3, n),
            "price": rng.random(n),
        }
    )


@cache
def try_every_combination(n: int, seed: int, ties: bool, task: Task) -> Answer:
    events = make_events(n, seed, ties)
    times, types, ids = (events.column(name).to_pylist() for name in ("ts", "type", "id"))
    matches = []
    for rows in product(*([row for row, name in enumerate(types) if name == wanted] for wanted in task.positives)):
        in_order = all(times[left] < times[right] for left, right in pairwise(rows))
        if not in_order or times[rows[-1]] - times[rows[0]] >= task.window or (task.keyed and len({ids[row] for row in rows}) > 1):
            continue
        if task.negated is not None:
            after, before = times[rows[task.negated - 1]], times[rows[task.negated]]
            if any(after < at < before and name == task.types[task.negated] for at, name in zip(times, types, strict=True)):
                continue
        matches.append(rows)
    return answer_of(list(np.array(matches, np.int64).reshape(len(matches), len(task.positives)).T))


def only_installed(name: str) -> Peer:
    peer = load(name)
    if reason := peer.missing():
        pytest.skip(reason)
    return peer


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in peer_names()])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    found = only_installed(request.param)
    yield found
    if request.param != "spark_joins":  # its session may be the one other tests share
        found.close()


@pytest.mark.parametrize("ties", [False, True])
def test_finds_every_combination(peer: Peer, ties: bool) -> None:
    n, seed = 90, 7
    peer.prepare(make_events(n, seed, ties))
    found = 0
    for task in tasks().values():
        expected = try_every_combination(n, seed, ties, task)
        assert peer.answer(peer.run(task)) == expected, task
        found += expected.count
    assert found > 100


def test_finds_nothing_where_a_type_is_missing(peer: Peer) -> None:
    events = make_events(40, seed=3, ties=False)
    peer.prepare(events.filter(pc.not_equal(events.column("type"), "IPIX")))
    assert [peer.answer(peer.run(task)).count for task in tasks().values()] == [0] * len(tasks())


def test_the_checksum_tells_matches_apart_but_not_their_order() -> None:
    rows = np.arange(60).reshape(3, 20)
    assert answer_of(list(rows)) == answer_of(list(rows[:, ::-1]))
    assert answer_of(list(rows)) != answer_of(list(rows[::-1]))
    swapped = rows.copy()
    swapped[2, [0, 1]] = swapped[2, [1, 0]]  # the same events in other matches: a plain sum would not see it
    assert answer_of(list(rows)) != answer_of(list(swapped))


def test_the_checksum_does_not_overflow() -> None:
    rows = np.full((5, 3), 100_000_000)
    mixed = sum(100_000_000 * factor for factor in (1_000_003, 15_485_863, 179_424_673, 373_587_883, 982_451_653)) % (2**31 - 1)
    assert answer_of(list(rows)).checksum == 3 * (mixed**2 % (2**31 - 1))
