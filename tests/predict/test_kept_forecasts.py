"""The state of a forecast that this version wrote is read for ever: its bytes lie beside this file.

They are never written again; `SEQUBE_STATES=write` makes them where there are none.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from seqube.events import Events
from seqube.predict import Rule, Rules, forecast
from seqube.predict.forecasts import Forecaster
from seqube.predict.matcher import EPISODE_STRATEGIES

STATE = Path(__file__).parent / "states" / "forecast.arrow"
RULES = Rules([Rule("A -> B", "C", 10, 20, 0.5, "chain"), Rule("A, B", "C", 10, 20, 0.5, "by car", "car")])
CUT = 6  # something is remembered, something waits, and something is still to come of both
EVENTS = Events(pa.table({"type": [*"ABABBAAB"], "ts": [1, 2, 4, 5, 7, 8, 8, 9], "car": ["p", "q", "q", "p", "q", "p", None, "p"]}))


@pytest.mark.parametrize("strategy", EPISODE_STRATEGIES)
def test_a_state_that_was_written_goes_on(strategy: str) -> None:
    forecaster = Forecaster(RULES, EVENTS.schema, strategy=strategy)
    state, before = forecaster.step(forecaster.start(), EVENTS.slice(0, CUT))
    if os.environ.get("SEQUBE_STATES") == "write" and not STATE.exists():
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_bytes(state.to_bytes())
    state, found = forecaster.step(forecaster.restore(STATE.read_bytes()), EVENTS.slice(CUT, len(EVENTS)))
    _, rest = forecaster.finish(state)
    whole = forecast(RULES, EVENTS).table.to_pylist()
    assert pa.concat_tables([before, found, rest]).to_pylist() == whole
    assert len(before) > 0
    assert len(found) + len(rest) > 0
