"""Whatever is given to a public function: an answer, or an error of ours that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from hardening.calls import CALLS, CUBE, EVENTS, QUERY, RULES, STRANGE, TABLE
from seqube.arguments import FOR_ENGINE


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some names are those of files


@pytest.mark.parametrize(("call", "argument"), [(call, argument) for call, (_, given) in CALLS.items() for argument in given])
def test_only_our_errors_come_out(call: str, argument: str) -> None:
    function, given = CALLS[call]
    unnamed = []
    for strange in STRANGE:
        try:
            str(function(**given | {argument: strange}))
        except sq.ArgumentError as error:
            unnamed += [str(error)] if argument not in str(error) and call != "parse" else []
        except sq.SequbeError:
            pass  # it says in its own words what is wrong with that value
    assert unnamed == []


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(sq.ArgumentError, match="explain: got an unexpected keyword argument 'treshold'"):
        sq.explain(QUERY, EVENTS, treshold=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("call", ["run", "explain", "forecast", "funnel", "Stream", "mine", "Events"])
def test_every_function_names_an_unknown_argument(call: str) -> None:
    function, given = CALLS[call]
    with pytest.raises(sq.ArgumentError, match=rf"{call}: got an .* 'unti'\n  hint: did you mean unit=\?") as told:
        function(**{name: value for name, value in given.items() if name != "unit"}, unti="ms")
    assert isinstance(told.value, TypeError)


def test_the_name_of_a_limit_is_known_by_its_neighbours() -> None:
    with pytest.raises(sq.ArgumentError, match="did you mean max_matches="):
        sq.run(QUERY, EVENTS, max_match=5)  # type: ignore[call-overload]


def test_the_docstring_says_what_is_meant() -> None:
    with pytest.raises(sq.ArgumentError, match=r"roll_up: concept is a str, where .* is expected"):
        CUBE.roll_up("X")  # type: ignore[arg-type]
    with pytest.raises(sq.ArgumentError, match="hint: partition_by: columns; each of their values is a stream of its own"):
        sq.mine(EVENTS, "5", 1, 0.5, partition_by=[5])  # type: ignore[list-item]


def test_what_hostile_inputs_found() -> None:
    with pytest.raises(sq.QueryError, match="the rule file holds a value that cannot be read"):
        sq.Rules.from_text("rules: \ud800")
    twice = pa.Table.from_arrays([pa.array(["A"]), pa.array([1]), pa.array([1])], names=["type", "ts", "ts"])
    with pytest.raises(sq.SchemaError, match="several columns have the name 'ts'"):
        sq.Stream(QUERY, columns={"ts": "int64"}).push(twice)


STRANGE_FRAMES = (None, 5, "events.parquet", TABLE, EVENTS, TABLE.to_pandas(), [])


@pytest.mark.parametrize("name", ["run", "explain", "forecast", "funnel", "mine", "quarantine", "register", "run_pipeline", "Cube"])
def test_on_spark_what_is_no_dataframe_is_named(name: str) -> None:
    """A table of pandas, which is called a DataFrame too, among them; Spark is not asked."""
    import seqube.spark as sqs

    more = {"funnel": {"steps": ["A", "B"], "by": "x", "within": "5"}, "forecast": {"rules": RULES}, "run_pipeline": {"path": "x"}}
    more |= {"mine": {"window": "5", "min_support": 1, "min_confidence": 0.5}}
    given = more.get(name, {"query": QUERY} if name in ("run", "explain", "Cube") else {})
    first, wanted = ("spark", "SparkSession") if name in ("register", "run_pipeline") else ("events", "DataFrame")
    for strange in STRANGE_FRAMES:
        with pytest.raises(sq.ArgumentError, match=f"^{name}: {first} is .*, where pyspark {wanted} is expected"):
            getattr(sqs, name)(**{first: strange}, **given)
    with pytest.raises(sq.ArgumentError, match="events is a pandas DataFrame, where pyspark DataFrame is expected"):
        sqs.run(QUERY, TABLE.to_pandas())


def test_a_query_that_was_not_asked_is_named() -> None:
    results = sq.run({"pairs": QUERY}, EVENTS)
    assert (results.get("pears"), "pears" in results) == (None, False)
    with pytest.raises(sq.ArgumentError, match=r"there is no query 'pears'\n  hint: did you mean 'pairs'\?") as told:
        results["pears"]
    assert isinstance(told.value, KeyError)


def asking_methods(of: type) -> dict[str, Callable[..., Any]]:
    methods = {name: getattr(of, name) for name in vars(of) if not name.startswith("_")}
    return {name: each for name, each in methods.items() if callable(each) and set(inspect.signature(each).parameters) - {"self"}}


def test_methods_of_results_check_their_arguments() -> None:
    asking = asking_methods(sq.Result)
    assert {"head", "sample", "to_pandas"} <= set(asking)
    assert [name for name, each in asking.items() if not hasattr(each, "__wrapped__")] == []


def test_methods_of_events_check_their_arguments_or_say_that_they_are_for_the_engine() -> None:
    asking = asking_methods(sq.Events)
    trusting = {name for name, each in asking.items() if (each.__doc__ or "").startswith(FOR_ENGINE)}
    assert {"take", "rows_of", "concat", "tied"} <= trusting
    assert [name for name in asking if (name in trusting) == hasattr(asking[name], "__wrapped__")] == []
