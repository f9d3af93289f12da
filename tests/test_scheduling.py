"""The tests of a file go to one worker, and those on Spark to the first, or to a second one."""

from __future__ import annotations

from types import SimpleNamespace

from xdist import newhooks

from scheduling import Scheduling, is_on_spark, pick, scope_of

ON_SPARK = ("tests/spark/test_batch.py", "tests/test_cli.py")


def test_a_scope_is_a_file_or_a_page() -> None:
    assert scope_of("tests/spark/test_batch.py::test_a[x::y]") == "tests/spark/test_batch.py"
    assert scope_of("tests/test_docs.py::test_page[docs/spark.md]") == "tests/test_docs.py::test_page[docs/spark.md]"
    assert scope_of("tests/test_docs.py::test_links[a.md]") == "tests/test_docs.py"


def test_who_needs_spark_is_read_from_files_and_pages() -> None:
    for scope in (*ON_SPARK, "tests/test_docs.py::test_page[docs/spark.md]"):
        assert is_on_spark(scope), scope
    for scope in ("tests/test_oracle.py", "tests/test_docs.py::test_page[docs/time-zones.md]", "tests/no_such_file.py"):
        assert not is_on_spark(scope), scope


def test_who_takes_what_first() -> None:
    plain, page = "tests/test_oracle.py", "tests/test_docs.py::test_page[docs/time-zones.md]"
    spark, spark_page = "tests/spark/test_batch.py", "tests/test_docs.py::test_page[docs/spark.md]"
    for first, order in ((True, [spark_page, spark, page, plain]), (False, [page, plain, spark_page, spark])):
        left = [plain, spark, page, spark_page]
        for wanted in order:
            assert pick(left, first) == wanted
            left.remove(wanted)


class Worker:
    """As xdist's own stand for one: told numbers of tests, it runs them."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.told: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.told += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def test_no_file_is_dealt_out_to_two_workers() -> None:
    """By xdist as it is installed: what it makes of the names of tests changes between versions, its own and pytest's."""
    assert hasattr(newhooks, "pytest_xdist_make_scheduler")  # by which ours comes into play
    settings = {"tx": ["2*popen"], "loadscopereorder": False}
    config = SimpleNamespace(getvalue=settings.__getitem__, option=SimpleNamespace(**settings))
    scheduling = Scheduling(config, None)
    tests = [f"{file}::test_{n}[a@b]" for file in ("tests/test_oracle.py", "tests/test_import.py", *ON_SPARK) for n in range(5)]
    workers = [Worker(), Worker()]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    done = [0, 0]
    while any(done[n] < len(worker.told) for n, worker in enumerate(workers)):
        for n, worker in enumerate(workers):
            if done[n] < len(worker.told):
                scheduling.mark_test_complete(worker, worker.told[done[n]])
                done[n] += 1
    files = [{scope_of(tests[number]) for number in worker.told} for worker in workers]
    assert files == [set(ON_SPARK), {"tests/test_oracle.py", "tests/test_import.py"}]
    assert sorted(workers[0].told + workers[1].told) == list(range(len(tests)))


def test_a_third_worker_goes_rather_than_start_another_session() -> None:
    settings = {"tx": ["3*popen"], "loadscopereorder": False}
    scheduling = Scheduling(SimpleNamespace(getvalue=settings.__getitem__, option=SimpleNamespace(**settings)), None)
    files = (*ON_SPARK, "tests/spark/test_stream.py", "tests/spark/test_faults.py", "tests/test_oracle.py", "tests/test_import.py")
    tests = [f"{file}::test_{n}" for file in files for n in range(5)]
    workers = [Worker(), Worker(), Worker()]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    for number in list(workers[2].told):
        scheduling.mark_test_complete(workers[2], number)
    assert workers[2].shutting_down
    assert not any(is_on_spark(scope_of(tests[number])) for number in workers[2].told)
    assert scheduling.workqueue  # it is left to the others
