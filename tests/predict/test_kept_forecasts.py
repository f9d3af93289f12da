"""The state of a forecast that this version wrote is read for ever: its bytes lie beside this file.

They are never written again; `SEQUBE_STATES=write` makes them where there are none.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from predict.kept_forecasts import CUT, EVENTS, RULES, STATE
from seqube.predict import forecast
from seqube.predict.forecasts import Forecaster
from seqube.predict.matcher import EPISODE_STRATEGIES


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
