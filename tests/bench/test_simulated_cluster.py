"""The simulated cluster: what must hold of any schedule, whatever the numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.cluster import Cluster, Job, Load, StageCost, Step, Work, _sizes, bound, learn, seconds_of, simulate, steps_of
from bench.recording import STREAM_JOB, Run, Stage, as_lines, from_lines

FREE = {"dispatch_s": 0.0, "network": math.inf, "disk": math.inf}


def run(steps: list[Step], cluster: Cluster, seed: int = 0) -> tuple[float, float, int]:
    outcome = simulate(steps, cluster, np.random.default_rng(seed))
    return outcome.seconds, outcome.core_s, outcome.n_again


def seconds(count: int, each: float) -> Step:
    return Step(0.0, [Work(0.0, each, 0.0)] * count)


def test_one_core_does_one_task_after_the_other() -> None:
    assert run([Step(2.0, [Work(0.0, 3.0, 0.0)] * 4), seconds(1, 1.0)], Cluster(1, **FREE)) == (15.0, 13.0, 0)


def test_no_schedule_beats_the_work_over_the_cores_or_the_longest_task() -> None:
    random = np.random.default_rng(1)
    for cores in (1, 3, 8, 40):
        each = random.exponential(1.0, 50)
        took, core_s, _ = run([Step(0.0, [Work(0.0, float(one), 0.0) for one in each])], Cluster(cores, **FREE))
        assert core_s == pytest.approx(each.sum())
        assert max(each.sum() / cores, each.max()) <= took + 1e-9
        assert took <= each.sum() / cores + each.max() + 1e-9  # Graham's bound for any list


def test_the_driver_hands_out_one_task_at_a_time() -> None:
    assert run([seconds(100, 0.0)], Cluster(1_000, **FREE | {"dispatch_s": 0.01}))[0] == pytest.approx(1.0)


def test_tasks_of_a_node_share_its_card_and_its_disk() -> None:
    reading = Step(0.0, [Work(10.0, 1.0, 0.0)] * 4)
    assert run([reading], Cluster(4, 0.0, cores_per_node=4, network=10.0, disk=math.inf))[0] == pytest.approx(5.0)
    assert run([reading], Cluster(4, 0.0, cores_per_node=1, network=10.0, disk=math.inf))[0] == pytest.approx(2.0)
    writing = Step(0.0, [Work(0.0, 1.0, 10.0)] * 4)
    assert run([writing], Cluster(4, 0.0, cores_per_node=2, network=math.inf, disk=10.0))[0] == pytest.approx(3.0)


def test_what_a_lost_node_did_is_done_again() -> None:
    steps = [seconds(64, 10.0), seconds(64, 10.0)]
    calm = run(steps, Cluster(16, **FREE))
    stormy = run(steps, Cluster(16, **FREE, losses_per_hour=240.0), seed=3)
    assert calm == (80.0, 1_280.0, 0)
    assert stormy[0] > calm[0]
    assert stormy[1] > calm[1]
    assert stormy[2] > 0


def test_slow_nodes_hold_up_a_stage() -> None:
    assert run([seconds(16, 1.0)], Cluster(16, **FREE, slow_nodes=1.0, slow_by=3.0))[0] == pytest.approx(3.0)


# ---------------------------------------------------------------- jobs

SHUFFLED = StageCost("shuffle", 0.1, 0.2, 1e-6, np.ones(3), 0.0)
READ = StageCost("input", 0.5, 0.1, 1e-6, np.ones(3), 8.0)
JOB = Job("keyed matches", [READ, SHUFFLED], 0.25, 10.0)


def test_costs_are_found_again_in_runs_that_were_made_from_them() -> None:
    def recorded(n_events: int) -> Run:
        sizes = [n_events / 4] * 4
        stages = [
            Stage(0.5, "input", [0.1 + 1e-6 * n_events], [float(n_events)], [8.0 * n_events]),
            Stage(0.1, "shuffle", [0.2 + 1e-6 * size for size in sizes], sizes, [0.0] * 4),
        ]
        return Run("keyed matches", n_events, 1, 9.0, 0.25, 10 * n_events, stages)

    runs = [recorded(1_000_000), recorded(4_000_000)]
    assert from_lines(as_lines(runs)) == runs
    job = learn(runs)
    for cost, truth in zip(job.stages, JOB.stages, strict=True):
        assert (cost.reads, cost.driver_s, cost.written) == (truth.reads, truth.driver_s, truth.written)
        assert (cost.task_s, cost.event_s) == (pytest.approx(truth.task_s), pytest.approx(truth.event_s))
        assert cost.noise == pytest.approx(1.0)
    assert (job.after_s, job.input_bytes) == (0.25, 10.0)


@pytest.mark.parametrize("name", ["keyed matches", "matches in slices", STREAM_JOB])
@pytest.mark.parametrize("zipf", [0.0, 1.1])
def test_every_event_is_some_task_s(name: str, zipf: float) -> None:
    job = Job(name, JOB.stages, 0.25, 10.0)
    load, cluster, random = Load(10_000_000, 64, zipf), Cluster(32), np.random.default_rng(0)
    for stage in job.stages:
        sizes = _sizes(job, stage, load, cluster, random)
        halos = 12 * len(sizes) if name == "matches in slices" and stage.reads == "shuffle" else 0
        assert sizes.sum() == pytest.approx(load.n_events + halos)


def test_a_hot_key_is_cut_in_batches() -> None:
    """No task of a batch is much above its share, whatever the keys: hot ones are cut in time. In a stream they are not."""
    load, random = Load(100_000_000, 64, 1.3), np.random.default_rng(0)
    in_batch = _sizes(JOB, SHUFFLED, load, Cluster(32), random)
    in_stream = _sizes(Job(STREAM_JOB, JOB.stages, 0.0, 10.0), SHUFFLED, load, Cluster(32), random)
    assert in_batch.max() < 3 * in_batch.mean()
    assert in_stream.max() > 10 * in_stream.mean()


def test_what_bounds_a_job_is_found() -> None:
    load = Load(100_000_000, 64)
    assert bound(JOB, load, Cluster(2, **FREE))[0] == "the cores"
    assert bound(JOB, load, Cluster(64, **FREE | {"dispatch_s": 0.1}))[0] == "handing out tasks"
    assert bound(JOB, load, Cluster(64, **FREE | {"network": 1e6}))[0] == "network and disk"
    assert bound(JOB, Load(10_000, 64), Cluster(64, **FREE))[0] == "what the driver does between stages"
    uneven = Job("keyed matches", [READ, StageCost("shuffle", 0.1, 0.2, 1e-6, np.array([1.0] * 19 + [50.0]), 0.0)], 0.0, 10.0)
    assert bound(uneven, load, Cluster(64, **FREE))[0] == "the slowest task"


def test_more_cores_are_faster_until_something_else_bounds() -> None:
    took = [seconds_of(JOB, Load(100_000_000, 256), Cluster(cores, **FREE)) for cores in (1, 8, 64)]
    assert took == sorted(took, reverse=True)
    assert took[0] / took[1] == pytest.approx(8, rel=0.1)
    driver = 0.5 + 0.1 + 0.25
    assert len(steps_of(JOB, Load(1_000, 4), Cluster(1), np.random.default_rng(0))) == 3
    assert took[-1] > driver
