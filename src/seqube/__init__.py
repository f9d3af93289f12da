"""Seqube finds, counts, compares and predicts sequences of events.

    import seqube as sq

    result = sq.run("SEQ(Card c, Withdrawal w, c.id = w.id) WITHIN 5 min", "events.parquet", type="type", time="ts")
    result.table

Names are loaded when they are first used, so that importing the package is quick and starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqube.errors import ArgumentError, DataError, LimitError, PlanError, QueryError, SchemaError, SequbeError, SequbeWarning
from seqube.loading import collector_at_rest

if TYPE_CHECKING:
    from seqube.cube import Cube
    from seqube.engine.limits import Limits
    from seqube.engine.results import Result, Results
    from seqube.events import Events, Hierarchy
    from seqube.funnels import funnel
    from seqube.language import Query, parse
    from seqube.plan.explain import Explanation
    from seqube.predict.forecasts import forecast
    from seqube.predict.mining import mine
    from seqube.predict.rules import Rule, Rules
    from seqube.query import explain, run
    from seqube.statements import sql
    from seqube.stream import Stream

    __version__: str

__all__ = [
    "ArgumentError",
    "Cube",
    "DataError",
    "Events",
    "Explanation",
    "Hierarchy",
    "LimitError",
    "Limits",
    "PlanError",
    "Query",
    "QueryError",
    "Result",
    "Results",
    "Rule",
    "Rules",
    "SchemaError",
    "SequbeError",
    "SequbeWarning",
    "Stream",
    "__version__",
    "explain",
    "forecast",
    "funnel",
    "mine",
    "parse",
    "run",
    "sql",
]

_HOMES = {
    "Cube": "seqube.cube",
    "Events": "seqube.events",
    "Explanation": "seqube.plan.explain",
    "Hierarchy": "seqube.events",
    "Limits": "seqube.engine.limits",
    "Query": "seqube.language",
    "Result": "seqube.engine.results",
    "Results": "seqube.engine.results",
    "Rule": "seqube.predict.rules",
    "Rules": "seqube.predict.rules",
    "Stream": "seqube.stream",
    "explain": "seqube.query",
    "forecast": "seqube.predict.forecasts",
    "funnel": "seqube.funnels",
    "mine": "seqube.predict.mining",
    "parse": "seqube.language",
    "run": "seqube.query",
    "sql": "seqube.statements",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("seqube")
    elif name in _HOMES:
        from importlib import import_module

        with collector_at_rest():
            value = getattr(import_module(_HOMES[name]), name)
            if name == "run":
                import_module("seqube.engine.workload")  # which it asks for at once
    else:
        raise AttributeError(f"module 'seqube' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
