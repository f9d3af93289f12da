"""Which worker runs which tests: a file's tests go to one, and those on Spark to the first of them while there are others.

A worker builds what the tests of a file share, and compiles the kernels that they need, once. A session of Spark is large, takes
seconds to start and minutes to get quick, so one worker has it, and a second one helps when nothing else is left. Pages of the
documentation are long and share nothing: each goes by itself, and early, so that none is what all wait for at the end.

xdist's own groups are not used: its `loadgroup` writes the group into a part of the test's name that pytest 9 no longer reads, and
so deals out tests one by one without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parent.parent
SESSIONS = 2  # of Spark at the most: a third that starts at the end takes more than it gives
_PAGE = re.compile(r".*test_docs\.py::test_page\[(?P<page>.*)\]")
_ON_SPARK = re.compile(r"spark: SparkSession|mark\.spark|seqube\.spark as sqs")


def scope_of(test: str) -> str:
    """What goes to one worker: a page of the documentation, else the file of the test."""
    return test if _PAGE.fullmatch(test) else test.split("::", 1)[0]


@cache
def is_on_spark(scope: str) -> bool:
    """Whether it needs the session: its file, or its page, says so."""
    page = _PAGE.fullmatch(scope)
    path = ROOT / (page["page"] if page else scope)
    return path.is_file() and _ON_SPARK.search(path.read_text(encoding="utf-8")) is not None


def pick(scopes: Iterable[str], first: bool) -> str:
    """What comes next for the first worker, or for another one."""
    return min(scopes, key=lambda scope: (is_on_spark(scope) != first, _PAGE.fullmatch(scope) is None))  # the first of equals


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's own, but for what makes a scope and what comes next."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.nodes[SESSIONS:] and not node.shutting_down and all(map(is_on_spark, self.workqueue)):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(pick(self.workqueue, node is self.nodes[0]), last=False)
        super()._assign_work_unit(node)
