"""What comes next: episode rules matched over a stream, their predictions, how they turned out, and rules learnt from history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqube.predict.rules import Rule, Rules

if TYPE_CHECKING:
    from seqube.predict.forecasts import Forecast, forecast
    from seqube.predict.mining import mine

__all__ = ["Forecast", "Rule", "Rules", "forecast", "mine"]

_HOMES = {"Forecast": "seqube.predict.forecasts", "forecast": "seqube.predict.forecasts", "mine": "seqube.predict.mining"}


def __getattr__(name: str) -> Any:
    # Reading rules must not start the compiler.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'seqube.predict' has no attribute {name!r}")
