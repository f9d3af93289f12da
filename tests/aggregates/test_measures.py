"""The two tables of aggregates: what `language/functions.py` names, `engine/aggregates/measures.py` has."""

from __future__ import annotations

import pytest

import seqube as sq
from seqube.engine.aggregates.measures import FINISHES, MEASURES, Sum, finisher, means
from seqube.language.functions import AGGREGATES, aggregate_function


def test_the_tables_agree() -> None:
    rows = AGGREGATES.values()
    assert {measure for row in rows for measure in row.measures} == set(MEASURES)
    assert {row.finish for row in rows} == set(FINISHES)


@pytest.mark.parametrize("name", AGGREGATES)
def test_what_a_measure_needs_is_measured_before_it(name: str) -> None:
    measures = AGGREGATES[name].measures
    for place, measure in enumerate(measures):
        row = MEASURES[measure]
        assert set(row.needs if isinstance(row, Sum) else ()) <= set(measures[:place])


def test_what_is_in_no_table_is_refused_by_name() -> None:
    with pytest.raises(sq.QueryError, match="there is no aggregate 'DREAM'") as refused:
        aggregate_function("DREAM")
    assert refused.value.hint is not None
    with pytest.raises(sq.PlanError, match="there is no measure 'DREAM'"):
        means("DREAM")
    with pytest.raises(sq.PlanError, match="there is no way to finish an aggregate, 'DREAM'"):
        finisher("DREAM")


def test_a_misspelt_aggregate_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(sq.QueryError, match="there is no function 'SUMM'") as refused:
        sq.explain("SEQ(A a, B b) WITHIN 9 AGG SUMM(a.x)")
    assert refused.value.hint == "did you mean SUM?"
