"""How Spark runs a query: where its events meet, how that limits it, and what is left out before anything travels.

The words follow from the plan alone, so nothing is read; which filters Parquet is asked for is what Spark itself says it will ask,
because not every filter that is written down reaches the files.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Collection, Iterator, Mapping

from seqube.language.writer import duration
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.explain import Explanation, Step, explain_plan
from seqube.plan.needs import Needs, Plan, needs_of
from seqube.plan.physical import ticks
from seqube.spark import ingest
from seqube.spark.batch import HALO, SMALL, TASK_ROWS
from seqube.spark.ingest import REASON, SURVEYED, EventFrame
from seqube.spark.rows import refuse_in_streams, unknown_to_tasks
from seqube.spark.streaming.watch import STATE_BUCKETS
from seqube.spark.transport.columns import needed_schema

_KEYLESS = "hint: a key lets many tasks share the work: PARTITION BY id, or [id] over all components, negated ones too"


def explain_on_spark(plans: Mapping[str, Plan], source: EventFrame, open_: Collection[str] = ()) -> Explanation:
    """The plans, and above each how Spark runs it over this source. How the `open_` ones are best run, the events decide."""
    return Explanation.join({name: _explain(plan, source, name in open_) for name, plan in plans.items()})


def _explain(plan: Plan, source: EventFrame, is_open: bool) -> Explanation:
    inner = explain_plan(plan)
    streaming = source.frame.isStreaming
    if streaming:
        refuse_in_streams(plan)
    needs = needs_of(plan, source.schema.unit)
    notes = [*(_as_stream(needs) if streaming else _as_batch(plan, needs, source)), *_before_the_shuffle(plan, source)]
    if is_open and streaming:
        notes.append("the strategy below is the one taken where nothing is known of the events, as of those still to come")
    elif is_open:
        notes.append(f"one event in {SURVEYED} is looked at when it is run, and says which strategy is cheapest; below, none was")
    if not streaming:
        new = unknown_to_tasks(plan)
        notes.append("as a stream: " + (next(_as_stream(needs)) if new is None else f"{new} cannot be run there yet"))
    return Explanation(Step("on Spark, as a stream" if streaming else "on Spark, as a batch", tuple(notes), (inner.root,)))


def _as_batch(plan: Plan, needs: Needs, source: EventFrame) -> Iterator[str]:
    """Where the events of a batch meet, and what is cut."""
    sizes = f"a task for each {SMALL:,} to {TASK_ROWS:,} rows"
    if needs.key:
        yield f"split by a hash of {', '.join(needs.key)}: {sizes}"
        cut = needs.can_be_cut and not needs.by_position
        yield "a key too large for one task is cut by time as well" if cut else "a key too large for one task stays whole"
        return
    if not needs.can_be_cut and plan.matches.skip is not None:
        yield "not split: one task has all events, because SKIP leaves out matches by all that end before them"
        yield "hint: PARTITION BY the key, and a task has many partitions"
        return
    if not needs.can_be_cut:
        yield "not split: one task has all events, because a report may depend on any of them"
        yield "hint: GROUP BY the key, and a task has many groups; or let the window be one of time"
        return
    if needs.by_position:
        yield f"events are numbered over the whole input first, then cut by number: two shuffles, {sizes}"
        return
    if isinstance(plan, AggregatePlan):
        yield f"cut by time: {sizes}, each at least {HALO} windows long"
        halo = f"the events of {_length(plan, source)} before it" + ", twice" * (needs.halo > needs.window)
        yield f"a slice has {'its share of the totals' if needs.adds_up else 'the rows that are due in it'}, and {halo}"
        return
    waits = f", and {_length(plan, source)} after it, because matches wait for their end" if needs.ahead else ""
    yield f"cut by time: {sizes}, each at least {HALO} windows long"
    yield f"a slice has the matches that end in it, and the events of {_length(plan, source)} before it{waits}"


def _as_stream(needs: Needs) -> Iterator[str]:
    """How the state of a stream is spread."""
    if needs.key:
        yield f"state in {STATE_BUCKETS} buckets by a hash of {', '.join(needs.key)}: at most {STATE_BUCKETS} tasks work at once"
    else:
        yield "state in one bucket: one task does all of its work, whatever the number of machines; queries run beside each other"
        yield _KEYLESS


def _length(plan: Plan, source: EventFrame) -> str:
    window = plan.matches.window
    return duration(window.length) if window.unit == "us" else f"{ticks(window, source.schema.unit):,} {source.schema.unit}"


def _before_the_shuffle(plan: Plan, source: EventFrame) -> Iterator[str]:
    """The columns and rows that travel, and what of that the files answer."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = needed_schema([plan], source.schema).columns.names
    yield f"columns that travel: {len(columns)} of {len(source.names)} ({', '.join(columns)})"
    wanted = ingest.relevant([plan], source)
    yield f"rows that travel: {_text(wanted)}"
    if not source.frame.isStreaming:
        chosen = source.frame.where(F.isnull(ingest.column(REASON))).where(wanted)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            chosen.select(*map(ingest.column, columns)).explain(mode="formatted")
        pushed = [filters for filters in re.findall(r"PushedFilters: \[(.*)\]", said.getvalue()) if filters]
        yield (
            f"the files are asked for: {'; '.join(pushed)}"
            if pushed
            else "the files are asked for all rows: nothing is pushed to them"
        )


def _text(condition: object) -> str:
    """A condition of Spark as a person reads it."""
    return re.sub(r"^Column<'(.*)'>$", r"\1", str(condition), flags=re.DOTALL)
