"""Every public name says what it takes and shows how it is used, in `help()` and on the page made from it; examples run."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seqube as sq
import seqube.predict
import seqube.spark as sqs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
reference = import_module("reference")

PUBLIC = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (sq, sqs, seqube.predict)
    for name in module.__all__
    if not name.startswith("_")
]
LOCAL = [each for each in PUBLIC if not str(each.id).startswith("seqube.spark")]
ON_SPARK = [each for each in PUBLIC if str(each.id).startswith("seqube.spark")]
GIVEN = (sq.Query, sq.Result, sq.Results, sq.Explanation, sq.Hierarchy, seqube.predict.Forecast)  # not made by their own call


def run_examples(thing: Any, names: dict[str, Any]) -> None:
    text = inspect.getdoc(thing) or ""
    assert ">>>" in text, "a public name shows an example"
    test = doctest.DocTestParser().get_doctest(text, {"sq": sq, "pa": pa} | names, thing.__name__, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("thing", LOCAL)
def test_examples_are_true(thing: Any) -> None:
    run_examples(thing, {})


@pytest.mark.parametrize("thing", ON_SPARK)
def test_examples_on_spark_are_true(thing: Any, spark: SparkSession) -> None:
    run_examples(thing, {"spark": spark, "sqs": sqs})


@pytest.mark.parametrize("thing", PUBLIC)
def test_every_argument_is_explained(thing: Any) -> None:
    if thing in GIVEN or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return
    listed = re.findall(
        r"^- ((?:`\w+`(?:, | and )?)+)|with ((?:`\w+`(?:, | and )?)+)", inspect.getdoc(thing) or "", flags=re.MULTILINE
    )
    explained = set(re.findall(r"`(\w+)`", " ".join(part for each in listed for part in each)))
    assert set(inspect.signature(thing).parameters) <= explained


@pytest.mark.parametrize("thing", PUBLIC)
def test_every_member_says_what_it_is(thing: Any) -> None:
    assert [name for name, value in reference.members(thing) if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("thing", PUBLIC)
def test_the_page_has_every_name_and_member(thing: Any) -> None:
    page = reference.write_reference()
    assert f"\n### {thing.__name__}\n" in page
    for name, _ in reference.members(thing):
        assert f"\n- `.{name}" in page
    assert not re.search(r"^>>>", page, flags=re.MULTILINE)  # which Markdown would take for a quotation
