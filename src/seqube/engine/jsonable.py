"""Values as JSON can hold them, wherever rows are written as JSON."""

from __future__ import annotations

import datetime
import math
from typing import Any


def plain(value: Any, widest: float = math.inf) -> Any:
    """A value as JSON can hold it: times and durations in ISO form, what is no number as null, anything unusual as text.

    So are whole numbers as large as `widest`, for those who would round them.
    """
    match value:
        case dict():
            return {str(key): plain(inner, widest) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner, widest) for inner in value]
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < widest else str(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            from seqube.engine.display import iso_duration

            return iso_duration(value)
        case _:
            return str(value)
