"""The rules, and the events, of the state of a forecast that is kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from seqube.events import Events
from seqube.predict import Rule, Rules

STATE = Path(__file__).parent / "states" / "forecast.arrow"
RULES = Rules([Rule("A -> B", "C", 10, 20, 0.5, "chain"), Rule("A, B", "C", 10, 20, 0.5, "by car", "car")])
CUT = 6  # something is remembered, something waits, and something is still to come of both
EVENTS = Events(pa.table({"type": [*"ABABBAAB"], "ts": [1, 2, 4, 5, 7, 8, 8, 9], "car": ["p", "q", "q", "p", "q", "p", None, "p"]}))
