"""How predictions turned out: hit, miss or still open, and what that says about each rule.

A prediction is a hit if its consequent occurs strictly between `earliest` and `latest` (for keyed rules: with the same key), a
miss if the events reach past the interval without one, and open otherwise. A hit is known at once but a miss only when the
interval has closed, so the rate that is compared with the stated probability counts closed intervals alone.

Cost: one sort of the consequents' instances and a binary search per prediction, all on whole columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.predicates import code_columns
from seqube.events import Events, Hierarchy
from seqube.events.schema import is_moment
from seqube.events.times import Ints, read_times
from seqube.extras import need
from seqube.predict.episodes import Symbol, find_instances
from seqube.predict.matcher import locate
from seqube.predict.rules import Rules

if TYPE_CHECKING:
    import altair

COLUMNS = ("rule", "consequent", "start", "end", "earliest", "latest", "probability")
HIT, MISS, OPEN = "hit", "miss", "open"
_SURE = 1.959963984540054  # standard deviations that hold 95 % of a normal distribution


# ---------------------------------------------------------------- the columns of predictions

_TICKS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_US = 86_400_000_000


def name_key(column: str) -> str:
    """What a partition column is called in the table of predictions: its own name, if that is not taken there."""
    return f"{column}_key" if column in (*COLUMNS, "outcome", "occurred", "lead", "closed") else column


def write_times(ticks: Ints, kind: pa.DataType, up: bool = False) -> pa.Array:
    """Ticks in the type of the time column; what is finer than that type is rounded down, or up for an exclusive upper bound."""

    def whole(size: int) -> Ints:
        return -(-ticks // size) if up else ticks // size

    if pat.is_timestamp(kind):
        if kind.unit == "ns":
            return pa.array(ticks).view(pa.timestamp("us", kind.tz)).cast(kind)
        return pa.array(whole(_TICKS_US[kind.unit])).view(kind)
    if pat.is_date32(kind):
        return pa.array(whole(_DAY_US).astype(np.int32)).view(kind)
    if pat.is_date64(kind):
        return pa.array(whole(_DAY_US) * (_DAY_US // 1_000)).view(kind)
    try:
        return pa.array(ticks).cast(pa.int64() if pat.is_null(kind) else kind)
    except pa.ArrowInvalid:  # a narrow column cannot hold what lies beyond its last event
        return pa.array(ticks)


# ---------------------------------------------------------------- hit, miss or open


def judge(table: pa.Table, rules: Rules, events: Events, hierarchy: Hierarchy | None) -> pa.Table:
    """The predictions with `outcome`, `occurred` (when the consequent came), `lead` (how long after `end`) and `closed`."""
    n = table.num_rows
    numbers = _rule_numbers(table, rules)
    ends = _ticks(table, "end")
    # Not from the table, whose time type may be too coarse for it.
    latest = _ticks(table, "start") + np.array([rule.ticks(events.unit)[1] for rule in rules], np.int64)[numbers]
    occurred = np.zeros(n, np.int64)
    is_hit = np.zeros(n, np.bool_)
    for columns in dict.fromkeys(rule.partition_by for rule in rules):
        is_ours = np.array([rule.partition_by == columns for rule in rules], np.bool_)
        chosen = np.flatnonzero(is_ours[numbers])
        if len(chosen):
            when, hit = _next_consequents(table, rules, events, hierarchy, columns, chosen, numbers, ends)
            is_hit[chosen] = hit & (when < latest[chosen])
            occurred[chosen] = when
    newest = int(events.times[-1]) if len(events) else 0
    is_closed = latest <= newest + 1  # no tick before `latest` is still to come
    outcome = np.where(is_hit, HIT, np.where(is_closed, MISS, OPEN))
    kind = table.schema.field("end").type
    occurred_column = pc.if_else(pa.array(is_hit), write_times(np.where(is_hit, occurred, 0), kind), pa.scalar(None, kind))
    lead = pa.array(occurred - ends, pa.int64(), mask=~is_hit)
    if is_moment(kind):
        lead = lead.cast(pa.duration("us"))
    table = table.append_column("outcome", pa.array(outcome.astype(object), pa.string()))
    table = table.append_column("occurred", occurred_column).append_column("lead", lead)
    return table.append_column("closed", pa.array(is_closed))


def _rule_numbers(table: pa.Table, rules: Rules) -> Ints:
    names = pa.array([rule.name for rule in rules], pa.string())
    return np.asarray(pc.index_in(table.column("rule").combine_chunks(), value_set=names).cast(pa.int64()))


def _ticks(table: pa.Table, name: str) -> Ints:
    return read_times(table.column(name).combine_chunks()).times


def _next_consequents(
    table: pa.Table,
    rules: Rules,
    events: Events,
    hierarchy: Hierarchy | None,
    columns: tuple[str, ...],
    chosen: Ints,
    numbers: Ints,
    ends: Ints,
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For the chosen predictions: the first consequent after the end (with the same key), and whether there is one."""
    symbols: dict[Symbol, int] = {}
    wanted = np.array(
        [symbols.setdefault(Symbol(rule.consequent.type, rule.consequent.where), len(symbols)) for rule in rules], np.int64
    )[numbers[chosen]]
    rows, found = find_instances(events, tuple(symbols), hierarchy)
    streams, wanted_streams = found.astype(np.int64), wanted
    if columns:
        kinds = [[table.column(name_key(column)).combine_chunks().take(pa.array(chosen)) for column in columns]]
        kinds.append([_like(events.column(column), kinds[0][k].type) for k, column in enumerate(columns)])
        (wanted_keys, keys), _ = code_columns(kinds)
        known = keys[rows] >= 0
        rows, streams = rows[known], streams[known] + len(symbols) * keys[rows][known]
        wanted_streams = wanted + len(symbols) * wanted_keys
    order = np.argsort(streams, kind="stable")
    streams, times = streams[order], events.times[rows][order]
    if len(times) == 0:
        return ends[chosen], np.zeros(len(chosen), np.bool_)
    places = locate(streams, times, wanted_streams, ends[chosen], "right")
    inside = np.minimum(places, len(times) - 1)
    return times[inside], (places < len(times)) & (streams[inside] == wanted_streams)


def _like(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def score(outcomes: pa.Table, rules: Rules) -> pa.Table:
    """A row per rule, in the rules' order; rates are null where nothing is decided yet."""
    n_rules = len(rules)
    numbers = _rule_numbers(outcomes, rules)
    is_hit, is_miss, is_open = (np.asarray(pc.equal(outcomes.column("outcome"), name)) for name in (HIT, MISS, OPEN))
    is_closed = np.asarray(outcomes.column("closed"))

    def count(mask: npt.NDArray[np.bool_]) -> Ints:
        return np.bincount(numbers[mask], minlength=n_rules).astype(np.int64)

    hits, misses, open_ = count(is_hit), count(is_miss), count(is_open)
    closed_hits, closed = count(is_hit & is_closed), count(is_closed)
    leads = np.asarray(outcomes.column("lead").combine_chunks().cast(pa.int64()).fill_null(0))
    totals = np.bincount(numbers[is_hit], weights=leads[is_hit].astype(np.float64), minlength=n_rules)
    low, high = _interval(closed_hits, closed)
    mean_lead = _ratio(totals, hits)
    if pat.is_duration(outcomes.schema.field("lead").type):
        mean_lead = pc.round(mean_lead).cast(pa.int64()).cast(pa.duration("us"))
    stated = np.array([rule.probability for rule in rules], np.float64)
    observed = _ratio(closed_hits, closed)
    return pa.table(
        {
            "rule": pa.array([rule.name for rule in rules], pa.string()),
            "predictions": hits + misses + open_,
            "hits": hits,
            "misses": misses,
            "open": open_,
            "precision": _ratio(hits, hits + misses),
            "mean_lead": mean_lead,
            "probability": stated,
            "observed_rate": observed,
            "observed_low": low,
            "observed_high": high,
            "difference": pc.subtract(observed, pa.array(stated)),
        }
    )


def _ratio(part: Any, whole: Ints) -> pa.Array:
    return pa.array(part / np.maximum(whole, 1), pa.float64(), mask=whole == 0)


def _interval(hits: Ints, decided: Ints) -> tuple[pa.Array, pa.Array]:
    """Wilson's 95 % interval of the true rate: honest for few predictions, where hits / decided is not."""
    n = np.maximum(decided, 1).astype(np.float64)
    rate = hits / n
    middle = (rate + _SURE**2 / (2 * n)) / (1 + _SURE**2 / n)
    reach = _SURE / (1 + _SURE**2 / n) * np.sqrt(rate * (1 - rate) / n + _SURE**2 / (4 * n * n))
    none = decided == 0
    return pa.array(np.maximum(middle - reach, 0), mask=none), pa.array(np.minimum(middle + reach, 1), mask=none)


def draw(quality: pa.Table) -> altair.LayerChart | altair.FacetChart:
    """Stated probability against observed rate, with the interval of the latter; on the line, a rule says what happens."""
    need("plot")
    import altair as alt

    rows = [row for row in quality.drop_columns(["mean_lead"]).to_pylist() if row["observed_rate"] is not None]
    data = alt.Data(values=rows)  # type: ignore[no-untyped-call]
    diagonal = alt.Data(values=[{"p": 0}, {"p": 1}])  # type: ignore[no-untyped-call]
    x = alt.X("probability:Q", title="stated probability", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("observed_rate:Q", title="observed rate", scale=alt.Scale(domain=[0, 1]))
    line = alt.Chart(diagonal).mark_line(color="#bbb", strokeDash=[4, 4]).encode(x="p:Q", y="p:Q")
    spread = alt.Chart(data).mark_rule(color="#888").encode(x=x, y="observed_low:Q", y2="observed_high:Q")
    tips = [alt.Tooltip(f"{name}:N") for name in ("rule", "predictions", "hits", "misses", "precision", "observed_rate")]
    points = alt.Chart(data).mark_circle(size=80).encode(x=x, y=y, size=alt.Size("predictions:Q"), tooltip=tips)
    return alt.layer(line, spread, points)
