"""Times that are texts, or that have no zone, as Spark's columns: by the rule of `events.times`, whatever the session's zone is."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from seqube.events.times import TEXT_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXT_TIME = TEXT_TIME.replace("(?P<", "(?<")  # as Java names groups
_ZONE_GROUP = 8  # of its groups
_DAY_US = 86_400_000_000


def read_text(text: Column, *, zoned: bool) -> Column:
    """A text as the time it stands for, null where it is none: the rule of `events.times`, and its arithmetic.

    A moment, or what a clock in UTC shows of it, without a zone. Spark's own cast would take other texts ('2024', 'T10:00' for
    today) and not all of these.
    """
    from pyspark.sql import functions as F  # noqa: N812

    fields = F.split(F.regexp_replace(text, _TEXT_TIME, "$1-$2-$3 $4 $5 $6 $7 $8"), " ")
    date, hour, minute, second, fraction, zone = (F.get(fields, F.lit(place)) for place in range(6))
    digits = F.translate(zone, ":", "")
    offset = _number(F.substring(digits, 2, 2)) * 60 + _number(F.substring(digits, 4, 2))
    minutes = _number(hour) * 60 + _number(minute) - F.when(F.startswith(zone, F.lit("-")), -offset).otherwise(offset)
    passed = (minutes * 60 + _number(second)) * 1_000_000 + _number(F.substring(F.rpad(fraction, 6, "0"), 1, 6))
    day = date.try_cast("date")  # null where the month has no such day
    if zoned:
        time = F.timestamp_micros(F.unix_date(day).cast("long") * _DAY_US + passed)
    else:
        zero, seconds = F.lit(0), passed.cast("decimal(18,0)") * F.lit(Decimal("0.000001"))
        time = day.cast("timestamp_ntz") + F.make_dt_interval(zero, zero, zero, seconds.cast("decimal(18,6)"))
    return F.when(text.rlike(_TEXT_TIME), time)


def _number(digits: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(digits.try_cast("long"), F.lit(0))


def names_zone(frame: DataFrame, text: Column) -> bool:
    """Whether some text that looks like a time names a zone: one row of a file where all do, the whole column where none does."""
    from pyspark.sql import functions as F  # noqa: N812

    zoned = text.rlike(_TEXT_TIME) & (F.regexp_extract(text, _TEXT_TIME, _ZONE_GROUP) != "")
    return not frame.where(zoned).select(F.lit(1)).isEmpty()


def ticks_of_plain(moment: Column) -> Column:
    """Microseconds from 1970 to a time without a zone.

    Differences of times, and a time plus a difference, would go by the clocks of the session's zone, forward and back.
    """
    from pyspark.sql import functions as F  # noqa: N812

    days = F.unix_date(moment.cast("date")).cast("long")
    seconds = (F.hour(moment) * 60 + F.minute(moment)) * 60
    microseconds = (F.extract(F.lit("SECOND"), moment) * 1_000_000).cast("long")
    return F.try_add(F.try_multiply(days, F.lit(_DAY_US)), seconds.cast("long") * 1_000_000 + microseconds)
