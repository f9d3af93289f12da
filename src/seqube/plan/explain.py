"""A plan in words and as a graph: what is done at each node, with how many events, and why.

The text is for people; `graph` has the same nodes and edges as plain data, for drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, assert_never

from seqube.events import Statistics
from seqube.extras import need
from seqube.language.tree import Quantifier, Value, Window
from seqube.language.writer import duration, write_predicate, write_value
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.chase import SharedPlan
from seqube.plan.needs import Plan, replays_partitions, why_replayed
from seqube.plan.optimizer import ALONE, WorkloadPlan
from seqube.plan.pairs import indexed, pairs_to_index
from seqube.plan.physical import (
    Absence,
    Clause,
    Guarded,
    LocalAtom,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    Option,
    PlanNode,
    RunStep,
    Scan,
    Scope,
    Way,
    milliseconds,
)
from seqube.plan.sharing import Counted, SharingPlan, SlotPattern
from seqube.plan.slices import cut_of
from seqube.plan.unbuilt import how_told

if TYPE_CHECKING:
    import altair


@dataclass(frozen=True, slots=True)
class Step:
    """One node of an explained plan: a headline, what is noted about it, the steps it builds on, the ways there were to do it."""

    title: str
    notes: tuple[str, ...] = ()
    children: tuple[Step, ...] = ()
    options: tuple[Option, ...] = ()

    def lines(self, first: str = "", rest: str = "") -> Iterable[str]:
        yield first + self.title
        stem = rest + ("│ " if self.children else "  ")
        for note in (*self.notes, *map(str, self.options)):
            yield stem + "  " + note
        for number, child in enumerate(self.children):
            last = number == len(self.children) - 1
            yield from child.lines(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is run, as `explain` gives it: `print` it, or draw its `graph`.

    >>> plan = sq.explain("SEQ(A a, B b) WITHIN 5")
    >>> [node["title"] for node in plan.graph["nodes"]]
    ['return matches', 'match sequence of 2', 'scan A as a', 'scan B as b']
    """

    root: Step
    drawn: Mapping[str, Any] | None = None  # a graph of its own, where steps are not what is drawn

    def __str__(self) -> str:
        return "\n".join(self.root.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The text, with what was taken and what was rejected told apart."""
        styles = {"taken": "color:#0f766e;font-weight:bold", "rejected": "color:#94a3b8"}
        lines = []
        for line in str(self).splitlines():
            word = line.lstrip("│├└─ ").partition(":")[0]
            text = escape(line)
            lines.append(f'<span style="{styles[word]}">{text}</span>' if word in styles else text)
        return "<pre>" + "\n".join(lines) + "</pre>"

    def plot(self) -> altair.LayerChart | altair.FacetChart:
        """The steps as a tree, from what is read on the right to the answer on the left; notes appear under the pointer."""
        need("plot")
        import altair as alt

        graph = self.graph
        sources: dict[int, list[int]] = {node["id"]: [] for node in graph["nodes"]}
        for edge in graph["edges"]:
            sources[edge["target"]].append(edge["source"])
        places: dict[int, tuple[int, float]] = {}
        n_leaves = 0

        def place(number: int, depth: int) -> float:
            nonlocal n_leaves
            rows = [place(below, depth + 1) for below in sources[number] if below not in places]
            if not rows:
                n_leaves += 1
            places[number] = (depth, sum(rows) / len(rows) if rows else float(n_leaves))
            return places[number][1]

        used = {edge["source"] for edge in graph["edges"]}
        for node in graph["nodes"]:
            if node["id"] not in used:
                place(node["id"], 0)
        nodes = [
            {
                "x": places[node["id"]][0],
                "y": places[node["id"]][1],
                "title": node["title"],
                "notes": "; ".join([*node.get("notes", ()), *(str(Option(**option)) for option in node.get("options", ()))]),
            }
            for node in graph["nodes"]
        ]
        lines = [
            {"x": places[one][0], "y": places[one][1], "x2": places[two][0], "y2": places[two][1]}
            for one, two in ((edge["source"], edge["target"]) for edge in graph["edges"])
        ]
        x, y = alt.X("x:Q", axis=None), alt.Y("y:Q", axis=None, scale=alt.Scale(reverse=True))
        dots = alt.Chart(alt.Data(values=nodes)).encode(x=x, y=y, tooltip=["title:N", "notes:N"])  # type: ignore[no-untyped-call]
        edges = alt.Chart(alt.Data(values=lines)).mark_rule(color="#bbb").encode(x=x, y=y, x2="x2:Q", y2="y2:Q")  # type: ignore[no-untyped-call]
        titles = dots.mark_text(align="left", dx=8).encode(text="title:N")
        return alt.layer(edges, dots.mark_circle(size=70), titles).properties(width=720, height=40 + 30 * n_leaves)

    @property
    def graph(self) -> dict[str, Any]:
        """Nodes (id, title, notes, options) and edges (source, target): what flows from where to where."""
        if self.drawn is not None:
            return dict(self.drawn)
        nodes: list[dict[str, Any]] = []
        edges: list[dict[str, int]] = []

        def add(step: Step) -> int:
            number = len(nodes)
            options = [asdict(option) for option in step.options]
            nodes.append({"id": number, "title": step.title, "notes": list(step.notes), "options": options})
            edges.extend({"source": add(child), "target": number} for child in step.children)
            return number

        add(self.root)
        return {"nodes": nodes, "edges": edges}

    @staticmethod
    def join(parts: Mapping[str, Explanation], options: tuple[Option, ...] = ()) -> Explanation:
        """The explanations of a workload as one; that of a query by itself stays as it is."""
        if set(parts) == {ALONE}:
            return parts[ALONE]
        steps = tuple(Step(f"query {name}", (), (part.root,)) for name, part in parts.items())
        return Explanation(Step("workload", (), steps, options))


# ---------------------------------------------------------------- workloads


def explain_workload(workload: WorkloadPlan, statistics: Statistics | None = None, unit: str | None = None) -> Explanation:
    """How a workload is evaluated: what is shared, then every query that is evaluated by itself.

    With the `unit` of the events' times it is told whether several threads work on it.
    """
    together: dict[str, Explanation] = {}
    rest = dict(workload.plans)
    shared, counts = workload.matches, workload.counts
    if shared is not None and (shared.reuses or shared.strategy == workload.strategy):
        together["matches"] = _explain_shared_matches(shared)
        rest = {name: plan for name, plan in rest.items() if name not in shared.sources}
    if counts is not None:
        together["counts"] = _explain_shared_counts(counts)
        rest = {name: plan for name, plan in rest.items() if name not in counts.queries}
    if len(together) == 1 and not rest:
        return next(iter(together.values()))
    options = shared.options if shared is not None and "matches" not in together else ()
    joined = Explanation.join(together | {name: explain_plan(plan, statistics, unit) for name, plan in rest.items()}, options)
    is_asked = shared is not None and shared.strategy == workload.strategy
    return replace(joined, drawn=together["matches"].drawn) if is_asked else joined


def _explain_shared_matches(plan: SharedPlan) -> Explanation:
    """The order of computation with its reasons, and the E-Cube hierarchy."""
    steps = []
    for step in plan.steps:
        notes = [str(plan.lattice.cuboids[step.name]), f"estimated {milliseconds(step.seconds)}"]
        if step.source is not None:
            notes[-1] += f"; by itself {milliseconds(step.alone)}"
        steps.append(Step(f"{step.name}: {step.how}", tuple(notes)))
    steps += [Step(f"{name}: by itself", (why,)) for name, why in plan.apart.items()]
    hierarchy = Step("E-Cube hierarchy", tuple(plan.lattice.lines()))
    title = f"workload of {len(steps)}, {plan.strategy}: estimated {milliseconds(plan.seconds)}"
    graph = plan.lattice.graph
    for node in graph["nodes"]:
        node["source"] = plan.sources[node["id"]]
    return Explanation(Step(title, (), (*steps, hierarchy), plan.options), graph)


def _explain_shared_counts(plan: SharingPlan) -> Explanation:
    """Candidates, benefits, conflicts, the plan, and what the other ways would have cost."""
    notes = []
    for number, candidate in enumerate(plan.candidates):
        against = [j if i == number else i for i, j in plan.conflicts if number in (i, j)]
        conflict = f", in conflict with {', '.join(_piece(plan.candidates[i].piece) for i in against)}" if against else ""
        taken = "chosen" if candidate in plan.chosen else "candidate"
        notes.append(
            f"{taken}: {_piece(candidate.piece)} in {', '.join(sorted(candidate.queries))}, "
            f"benefit {milliseconds(candidate.benefit)}{conflict}"
        )
    steps = tuple(
        Step(f"query {name}", (*(_chopped(plan.pieces[path]) for path in query.paths(name)), *_lanes(query)))
        for name, query in plan.queries.items()
    )
    how = "each by itself" if plan.strategy == "independent" else f"together by {plan.strategy}"
    return Explanation(Step(f"count {len(plan.queries)} sequences {how}", tuple(notes), steps, plan.options))


def _chopped(pieces: Sequence[SlotPattern]) -> str:
    return " + ".join(map(_piece, pieces))


def _piece(piece: SlotPattern) -> str:
    return f"({', '.join(map(str, piece))})"


def _lanes(query: Counted) -> Iterable[str]:
    yield f"window {query.window:,} ticks"
    if query.key:
        yield f"a lane for each {', '.join(query.key)}"


# ---------------------------------------------------------------- one query


def explain_plan(plan: Plan, statistics: Statistics | None = None, unit: str | None = None) -> Explanation:
    """How one query is evaluated by itself."""
    step = _aggregates(plan, statistics) if isinstance(plan, AggregatePlan) else _matches(plan, statistics)
    if (why := why_replayed(plan)) is not None:
        again = "the window is" if not replays_partitions(plan) else "the windows of partitions with new events are"
        step = replace(step, notes=(*step.notes, f"on a stream, {again} evaluated again at every step: {why}"))
    if statistics is not None and unit is not None and (told := str(cut_of(plan, unit, statistics))):
        looked_at = [f"without building: {how_told(plan)}"] if isinstance(plan, MatchPlan) else []
        step = replace(step, notes=(*step.notes, told, *looked_at))
    return Explanation(step)


def _matches(plan: MatchPlan, statistics: Statistics | None, is_built: bool = True) -> Step:
    """How matches are found, or, where they are only counted, what is counted."""
    notes = [f"window: {_window(plan.window)}"]
    if plan.partition_by:
        notes.append(f"partitioned by {', '.join(plan.partition_by)}: each partition is a stream of its own")
    if plan.order_by:
        notes.append(f"in the order of time, then of {', '.join(plan.order_by)}")
    if plan.skip is not None and plan.waits:
        notes.append("one that ends before it may still wait: a match is final a window after its end")
    elif plan.waits_from_end:
        notes.append("a run inside it may go on: a match is final a window after its end")
    elif plan.keeps_partial or plan.has_runs_that_wait:
        notes.append("a run may go on: it is final when the window that began with it is over")
    elif plan.waits:
        notes.append("trailing negation: a match is final when the window that began with it is over")
    if plan.keeps_partial:
        notes.append("every run is kept, as far as it got")
    if plan.skip is not None:
        of = "" if plan.skip.variable is None else f" {plan.skip.variable}"
        notes.append(f"skip {plan.skip.to.lower()}{of}: matches in the order in which they end")
    if plan.is_distinct:
        notes.append("distinct: of equal rows the first that is found")
    if plan.limit is not None:
        notes.append(f"limit: it ends with {plan.limit:,} rows, those that are found first")
    known = _Known(statistics, {way.subquery: way for way in plan.ways}, plan.is_nested, is_built)
    children = [_step(plan.pattern, known), *(_absence(check, known) for check in plan.checks)]
    title = "return matches" if not plan.returns else f"return {', '.join(str(item.name) for item in plan.returns)}"
    return Step(title if is_built else "matches, counted without being built", tuple(notes), tuple(children))


def _aggregates(plan: AggregatePlan, statistics: Statistics | None) -> Step:
    """What is reported when, the strategy taken, and what the others would have cost."""
    when = {
        "trigger": "at every trigger",
        "every": "at every multiple of the period",
        "per": "for every bucket, when it is over: each match once, where it ends",
        "total": "once, at the end",
    }
    notes = [f"reported {when[plan.emit.when]}"]
    if plan.group_by:
        notes.append(f"grouped by {', '.join(write_value(plan.as_written(key)) for key in plan.group_by)}")
    notes += [f"having {write_predicate(plan.as_written(predicate))}" for predicate in plan.having]
    notes += [f"{write_value(column.value)} is computed once for every event" for column in plan.computed]
    title = f"aggregate {', '.join(str(output.name) for output in plan.aggregates)} by {plan.strategy}"
    below = _matches(plan.matches, statistics, is_built=plan.strategy == "two-step")
    return Step(title, tuple(notes), (below,), plan.options)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known beside the plan's tree: the events' statistics, and how sub-queries are evaluated."""

    statistics: Statistics | None
    ways: Mapping[PlanNode, Way]
    is_nested: bool
    is_built: bool


def _step(node: PlanNode, known: _Known) -> Step:
    step, way = _plain_step(node, known), known.ways.get(node)
    return step if way is None else replace(step, options=way.options)


def _plain_step(node: PlanNode, known: _Known) -> Step:
    match node:
        case Scan():
            notes = [f"where {write_predicate(predicate)}" for predicate in node.filters]
            if node.types != {node.name}:
                notes.append(f"{len(node.types)} types: {_some(sorted(node.types))}")
            count = f", {known.statistics.count(node.types):,} events" if known.statistics else ""
            return Step(f"scan {node.name} as {node.variable}{count}", tuple(notes))
        case MatchSequence():
            way = known.ways.get(node)
            pairs = () if known.is_nested else pairs_to_index(node, None if way is None else way.strategy)
            by_index = [clause for pair in indexed(pairs).values() for clause in pair.clauses]
            notes = [*_keys(node.key), *(f"looked up: {_tests(clause)}" for clause in by_index)]
            notes += [*(_clause(clause) for clause in node.clauses if clause not in by_index), *map(_filter, node.filters)]
            children = [_step(slot, known) for slot in node.slots]
            for gap in node.gaps:
                where = "before the first" if gap.position == 0 else "after the last" if gap.position == len(node.slots) else ""
                where = where or f"between slot {gap.position} and slot {gap.position + 1}"
                why = "of the same key" if gap.key is not None else "uncorrelated"
                how = f"latest start: one number per event answers it ({why})"
                notes_of_gap = () if known.is_nested else (how,)
                children.append(Step(f"nothing {where}", notes_of_gap, (_step(gap.instance, known),)))
            how = "own events first, then its sub-queries in the intervals between them"
            own = "an index for each pair, looked into" if pairs else "array stacks, enumerated"
            notes[:0] = [how] if known.is_nested else [f"{own} from the last slot"] * known.is_built
            return Step(f"match sequence of {len(node.slots)}", tuple(notes), tuple(children))
        case MatchConjunction():
            notes = [*_keys(node.key), *map(_clause, node.clauses), *map(_filter, node.filters)]
            slots = tuple(_step(slot, known) for slot in node.slots)
            return Step(f"match all {len(node.slots)} in any order", tuple(notes), slots)
        case MatchAlternatives():
            notes = [_filter(guarded) for guarded in node.filters]
            return Step("match any", tuple(notes), tuple(_step(branch, known) for branch in node.branches))
        case MatchRun():
            notes = [f"key: {name} on all of a run" for name in node.key]
            notes += [f"decides what fits: {write_predicate(predicate)}" for predicate in node.asked]
            notes += [*map(_filter, node.filters), *(["known when its window is over"] if node.waits else [])]
            how = (
                "for each start the preferred way through consecutive events"
                if node.is_strict
                else "for each start the first that fits"
            )
            return Step(f"run of {len(node.steps)}: {how}", tuple(notes), tuple(_run_step(step, known) for step in node.steps))
        case MatchRepeat():
            times = Quantifier(node.least, node.most)
            notes = [f"key: {write_value(value)} on all of a list" for value in node.key]
            notes += [*(f"as it grows: {write_predicate(step)}" for step in node.steps), *map(_filter, node.filters)]
            what = f"{node.item.name}?, where it is there" if node.is_single else f"every list of {node.item.name}{times}"
            return Step(what, tuple(notes), (_step(node.item, known),))
        case _:
            assert_never(node)


def _run_step(step: RunStep, known: _Known) -> Step:
    scans = tuple(_step(scan, known) for scan in step.scans)
    if len(scans) == 1 and not step.is_repeated:
        return scans[0]
    times = Quantifier(step.least, step.most, step.is_reluctant)
    return Step(f"repeated, {step.scans[0].name}{times}" if step.is_repeated else "any of", (), scans)


def _absence(absence: Absence, known: _Known) -> Step:
    notes = [_scope(absence.scope)]
    notes += [f"equal {write_value(link.inner)} and {write_value(link.outer)}: only those are looked at" for link in absence.links]
    notes += [_filter(guarded) for guarded in absence.filters]
    by_pairs = absence.filters or absence.checks
    checked = "candidates in scope are looked at match by match" if by_pairs else "latest start: a search per match"
    children = (_step(absence.instance, known), *(_absence(check, known) for check in absence.checks))
    return Step("nothing in scope", tuple(notes) if known.is_nested else (*notes, checked), children)


def _scope(scope: Scope) -> str:
    parts = []
    if scope.around is not None:
        parts.append(f"in the window that ends with {', '.join(scope.around)}")
    parts.append(f"after {', '.join(scope.after)}" if scope.after is not None else "from where the enclosing scope begins")
    parts.append(f"before {', '.join(scope.before)}" if scope.before is not None else "to where it ends")
    return ", ".join(parts)


def _keys(key: Iterable[tuple[Value, ...]]) -> list[str]:
    chains = [" = ".join(write_value(value) for value in column) for column in key]
    return [f"key: {chain} (sorted by key, then time)" for chain in chains]


def _clause(clause: Clause) -> str:
    return f"in the loop: {_tests(clause)}"


def _tests(clause: Clause) -> str:
    texts = [
        write_predicate(atom.predicate)
        if isinstance(atom, LocalAtom)
        else f"{write_value(atom.left)} {atom.op} {write_value(atom.right)}"
        for atom in clause
    ]
    return " OR ".join(texts)


def _filter(guarded: Guarded) -> str:
    guard = f" (where {' or '.join(sorted(guarded.when))} is there)" if guarded.when else ""
    return f"filter: {write_predicate(guarded.predicate)}{guard}"


def _window(window: Window) -> str:
    return duration(window.length) if window.unit == "us" else f"{window.length:,} {window.unit}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
