"""Every promise in the docs names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PAGE = (TESTS.parent / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_promise_is_held_by_tests_that_exist() -> None:
    rows = [line for line in PAGE.split("\n") if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", row.rstrip("| ").rpartition("|")[2])
        assert named, row
        for path, test in named:
            source = (TESTS / path).read_text(encoding="utf-8")
            assert re.search(rf"^def {test or 'test_'}", source, flags=re.MULTILINE), (path, test)
