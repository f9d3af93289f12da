"""The questions of `examples/questions`: what a short query answers is what plain pandas says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

import seqube as sq

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "questions"
LARGE = ("bikes", "sensors", "traffic")  # hundreds of thousands of readings
# What was counted when the questions were asked.
KNOWN = {"q01": 185, "q02": (227, 413), "q03": 201, "q04": 111, "q09": 1121, "q11": 1213, "q12": 5117, "q18": 0}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"questions_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def questions() -> list[Any]:
    found = []
    for module in map(load, sorted(FOLDER.glob("*.py"))):
        stem = module.__name__.removeprefix("questions_")
        marks = [pytest.mark.slow] if stem in LARGE else []
        names = [name for name in vars(module) if re.fullmatch(r"q\d\d", name)]
        found += [pytest.param(module, name, id=f"{stem}-{name}", marks=marks) for name in names]
    return found


@pytest.mark.parametrize(("module", "name"), questions())
def test_a_query_answers_what_pandas_says(module: ModuleType, name: str, shared_data: Path) -> None:
    path = shared_data / f"{module.FILE}.parquet"
    answer = getattr(module, name)(sq.Events(path, type=module.TYPE))
    assert answer == getattr(module, f"{name}_pandas")(pd.read_parquet(path).sort_values("seq").reset_index(drop=True))
    assert answer == KNOWN.get(name, answer)


def test_every_question_is_answered_and_listed() -> None:
    asked = {param.values[1]: getattr(*param.values).__doc__ for param in questions()}
    assert sorted(asked) == [f"q{number:02}" for number in range(1, 25)]
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"| {int(name[1:])} | {text} |" in listed for name, text in asked.items())
