"""Pages and plots from measurements: `python -m bench.report` reads build/bench/*.jsonl and writes docs/benchmarks.

Ratios come first, absolute numbers after them, and whoever beats us is named before those we beat. Nothing here is typed by hand
but the reasons in `REASONS`; the measurements themselves are copied beside the pages (`measured/`), so that every page is made
again, whichever workloads were measured last.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.charts import write_charts
from bench.figures import judged
from bench.peers import load, peer_names, tasks
from bench.workloads.scaling import PIECE, PIECES_PER_TASK, WINDOW, model

OUT = Path("build/bench")
DOCS = Path("docs/benchmarks")
OURS = "Seqube"
ONE_THREAD = "Seqube, one thread"
FLINK = "Flink CEP"
NOISE = 1.5  # on shared machines a smaller ratio says little

Line = dict[str, Any]

REASONS = {
    "Polars": "its hash joins are vectorised and run on two threads, and a query with few matches leaves little else to do",
    "DuckDB": "its hash joins are vectorised and run on two threads, and a query with few matches leaves little else to do",
    "plain Python": "at so few matches the fixed cost of a query (parsing, planning, making a table) is most of our time",
}
OTHER_REASON = "not explained yet"


@dataclass(frozen=True)
class Run:
    """One workload's file: where and how it was measured, and what."""

    name: str
    about: Line
    lines: list[Line]


def read_runs(folder: Path) -> dict[str, Run]:
    runs = {}
    for path in sorted(folder.glob("*.jsonl")):
        about, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if lines and path.stem.partition("-")[0] in TITLES:  # without its data a workload measures nothing
            runs[path.stem] = Run(path.stem, about, lines)
    return runs


def write_report(folder: Path = OUT, docs: Path = DOCS) -> Path:
    """Every page that the measurements in a folder, and those that pages were made of before, allow; returns the first page."""
    kept = docs / "measured"
    kept.mkdir(parents=True, exist_ok=True)
    for name in read_runs(folder):
        shutil.copyfile(folder / f"{name}.jsonl", kept / f"{name}.jsonl")
    runs = read_runs(kept)
    whole = {name: run.lines for name, run in runs.items() if name.partition("-")[2] in ("", "full")}  # not those of one part
    charts = write_charts(whole, docs)
    simulated = ["- [A cluster, simulated](cluster.md)"] if (docs / "cluster.md").exists() else []  # by `bench.cluster`
    pages = {"index": [*first_page(runs), *simulated, ""]}
    for run in runs.values():
        match run.name.partition("-")[0]:
            case "peers":
                body = peers_page(run)
            case "scaling":
                body = scaling_page(run)
            case _:
                body = workload_page(run)
        plots = [line for title, file in charts.get(run.name, []) for line in (f"![{title}]({file})", "")]
        pages[run.name] = [f"# {title_of(run.name)}", "", *provenance(run), *plots, *body, ""]
    for name, lines in pages.items():
        (docs / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
    return docs / "index.md"


TITLES = {
    "peers": "Seqube and its peers",
    "scaling": "How cost grows, and what that says about a cluster",
    "matching": "Matching against hard-wired loops",
    "aggregates": "Aggregates: the experiments of the A-Seq thesis",
    "cube": "Cubes: the experiments of the E-Cube paper",
    "forecast": "Forecasts: the experiments of the CBS-Tree paper",
    "nested": "Nested queries: the experiments of the papers on NEEL and sliding views",
    "runs": "Runs and funnels: the first event that fits",
    "sql": "SQL: MATCH_RECOGNIZE",
    "threads": "Threads: what more cores would do",
    "streams": "Streams: what a step costs, by the window",
    "spark": "Spark: what the pipeline costs beside Spark itself",
}


def title_of(run: str) -> str:
    """A run is called by its workload, and by what it has of it where that is not the quick run of all."""
    workload, _, part = run.partition("-")
    title = TITLES.get(workload, workload.capitalize())
    return f"{title} ({part.replace('-', ', ')})" if part else title


# ---------------------------------------------------------------- pieces of pages


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def provenance(run: Run) -> list[str]:
    about = run.about
    versions = ", ".join(f"{name} {found}" for name, found in about["versions"].items())
    page = [
        f"Measured {about['at'][:16].replace('T', ' ')} UTC at commit {about['commit'] or 'unknown'} by `{about['command']}`",
        f"on {about['cores']} cores of {about['processor']}, {about['memory_gb']} GB, {about['system']},",
        f"Python {about['python']}, {versions}.",
    ]
    pieces = about.get("pieces", [])
    if pieces:
        page += [f"In {len(pieces)} pieces, the first of {pieces[0]['at'][11:16]} UTC and the last of {pieces[-1]['at'][11:16]}."]
    load = max(piece["load"] for piece in (about, *pieces))
    if load > 0.5 * about["cores"]:
        began = "one of them" if pieces else "this run"
        page += [
            f"**The machine was busy with other work (load {load} on {about['cores']} cores when {began} began)**:",
            "wall times are too long and uneven; ratios by CPU time are the ones to look at.",
        ]
    page += about.get("remarks", [])
    return [*page, f"The measurements: [measured/{run.name}.jsonl](measured/{run.name}.jsonl).", ""]


def times(value: float | None) -> str:
    """A ratio, in as many digits as it deserves."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def per_second(line: Line) -> str:
    rate = line["rate"]
    return "" if rate is None else f"{rate / 1e6:,.3g} M" if rate >= 1e5 else f"{rate / 1e6:,.2g} M"


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:,.1f}"


def by_task(lines: Iterable[Line]) -> dict[tuple[str, int], dict[str, Line]]:
    """The contenders of each task at each size, in the order measured."""
    found: dict[tuple[str, int], dict[str, Line]] = defaultdict(dict)
    for line in lines:
        if line["task"] != "skipped":
            found[line["task"], line["events"]][line["contender"]] = line
    return found


def faster(ours: Line, other: Line, key: str = "wall_s") -> float | None:
    """How many times as fast we are; below one, they are."""
    return other[key] / ours[key] if ours[key] and other[key] else None


# ---------------------------------------------------------------- the peers


def ratio_table(contests: dict[tuple[str, int], dict[str, Line]], key: str = "wall_s") -> list[str]:
    contests = {key: entries for key, entries in contests.items() if entries[OURS]["wall_s"]}
    names = list(dict.fromkeys(name for entries in contests.values() for name in entries if name != OURS))
    rows = []
    for task in dict.fromkeys(task for task, _ in contests):
        row = [task]
        for name in names:
            cells = []
            for (other, events), entries in contests.items():
                if other == task and name in entries:
                    line, ours = entries[name], entries[OURS]
                    size = f" at {events:,}" if events < max(n for t, n in contests if t == task) else ""
                    cells.append((times(faster(ours, line, key)) or (line["note"] if line["right"] else "wrong")) + size)
            row.append(", ".join(cells))
        rows.append(row)
    return table(["query", *names], rows)


def lost(contests: dict[tuple[str, int], dict[str, Line]]) -> list[str]:
    """A line for everyone who beats us anywhere, by wall time or by CPU time."""
    lines = []
    for (task, events), entries in contests.items():
        ours = entries[OURS]
        for name, line in entries.items():
            wall, cpu = faster(ours, line), faster(ours, line, "cpu_s")
            if name.startswith(OURS) or wall is None or min(wall, cpu or wall) >= 1:
                continue
            said = []
            if wall < 1:
                said.append(
                    f"takes {wall:.2f} of our time ({milliseconds(line['wall_s'])} ms, ours {milliseconds(ours['wall_s'])} ms)"
                )
            if cpu is not None:
                verb = "with" if wall < 1 else "needs"
                said.append(f"{verb} {times(cpu)} times our CPU time on {line['cores']} core{'s' * (line['cores'] > 1)}")
            close = " Closer than what this machine can tell apart." if min(wall, cpu or wall) > 1 / NOISE else ""
            lines.append(f"- **{name} on {task}** ({events:,} events) {', '.join(said)}: {REASONS.get(name, OTHER_REASON)}.{close}")
    return lines or ["- Nobody, on any of these queries."]


def at_a_glance(contests: dict[tuple[str, int], dict[str, Line]]) -> list[str]:
    """Query by query at its full size: the best peer beside us, and what our second thread adds."""
    rows = []
    for task in dict.fromkeys(task for task, _ in contests):
        events = max(n for other, n in contests if other == task)
        entries = contests[task, events]
        ours, alone = entries[OURS], entries.get(ONE_THREAD)
        peers = {name: found for name, line in entries.items() if not name.startswith(OURS) and (found := faster(ours, line))}
        best = min(peers, key=lambda name: peers[name], default=None)
        rows.append(
            [
                task,
                best or "",
                times(peers[best]) if best else "",
                times(faster(ours, alone)) if alone else "",
                per_second(ours),
            ]
        )
    return table(["query", "best peer", "we are times as fast", "two threads are times as fast as one", "our events/s"], rows)


def against_flink(contests: dict[tuple[str, int], dict[str, Line]]) -> list[str]:
    """Where we stand against a hundred times Flink CEP, query by query."""
    rows = []
    for task in dict.fromkeys(task for task, _ in contests if task.startswith("Q-")):
        sizes = {events: entries for (other, events), entries in contests.items() if other == task}
        largest = sizes[max(sizes)][OURS]
        for events, entries in sizes.items():
            for name in (FLINK, f"{FLINK}, filtered by hand"):
                if name not in entries:
                    continue
                line, ours = entries[name], entries[OURS]
                if line["rate"] is None:
                    rows.append([task, name, f"{events:,}", line["note"], "", ""])
                    continue
                rows.append(
                    [
                        task,
                        name,
                        f"{events:,}",
                        per_second(line),
                        times(faster(ours, line)),
                        times(largest["rate"] / line["rate"]) if largest["rate"] else "",
                    ]
                )
    return table(
        ["query", "contender", "its events", "its events/s", "we are times as fast there", "our rate at the full size / its"], rows
    )


def peers_page(run: Run) -> list[str]:
    contests = by_task(run.lines)
    made, traced = (
        {key: entries for key, entries in contests.items() if key[0].startswith("trace") is real} for real in (False, True)
    )
    skipped = [f"- {line['contender']} was skipped: {line['note']}" for line in run.lines if line["task"] == "skipped"]
    wrong = [
        f"- {line['contender']}, {line['task']}: {line['note']}. Its time is not published."
        for line in run.lines
        if not line["right"]
    ]
    unfinished = [
        f"- {line['contender']}, {line['task']} ({line['events']:,} events): {line['note']}"
        for line in run.lines
        if line["right"] and line["wall_s"] is None and line["task"] != "skipped"
    ]
    page = [
        "## Who beats us",
        "",
        *lost(contests),
        "",
        *at_a_glance(contests),
        "## What is measured",
        "",
        "Everyone finds all combinations and has their row numbers in memory at the end; answers are compared by count and",
        "checksum. Seqube uses two cores, as its peers do. How the queries are put to each:",
        "",
        *(f"- {adapter.name}: {adapter.about}" for adapter in map(load, peer_names())),
        "",
        *table(["query", "pattern and window"], [[f"Q-{name}", task.short] for name, task in tasks().items()]),
        "## How many times as fast Seqube is",
        "",
        "By the clock, on equal inputs. A million made-up trades (20 tickers, one trade a millisecond); a peer that needs",
        "minutes for these was given fewer, and the ratio is at that size.",
        "",
        *ratio_table(made),
        "By CPU time of all cores:",
        "",
        *ratio_table(made, "cpu_s"),
    ]
    if traced:
        page += [
            "On a day of real trades (224,473, nearly half of them at the time of the one before; windows as above, and",
            "`x10`: ten times as long):",
            "",
            *ratio_table(traced),
            "By CPU time of all cores:",
            "",
            *ratio_table(traced, "cpu_s"),
        ]
    page += ["## A hundred times Flink CEP?", "", *against_flink(made)]
    if skipped or wrong or unfinished:
        page += ["## Not measured", "", *skipped, *wrong, *unfinished, ""]
    return [*page, "## Absolute numbers", "", *numbers(contests)]


def numbers(contests: dict[tuple[str, int], dict[str, Line]]) -> list[str]:
    rows = [
        [
            f"{task}, {line['contender']}",
            f"{events:,}",
            per_second(line),
            milliseconds(line["wall_s"]),
            milliseconds(line["spread_s"]),
            str(line["repetitions"] or ""),
            milliseconds(line["cpu_s"]),
            "" if line["peak_mb"] is None else f"{line['peak_mb']:,}",
            milliseconds(line["prepare_s"]),
            f"{line['answer']:,}" if isinstance(line["answer"], int) else str(line["answer"] or line["note"]),
        ]
        for (task, events), entries in contests.items()
        for line in entries.values()
        if line["wall_s"] is not None
    ]
    head = [
        "task, contender",
        "events",
        "events/s",
        "ms (median)",
        "± ms",
        "runs",
        "CPU ms",
        "peak MB",
        "taking events in, ms",
        "answer",
    ]
    return table(head, rows)


# ---------------------------------------------------------------- scaling


def scaling_page(run: Run) -> list[str]:
    series: dict[str, list[Line]] = defaultdict(list)
    for line in run.lines:
        series[line["about"]["series"]].append(line)
    page = ["One thing is varied at a time; the rest is a million trades, SEQ of three types, 100 ms, on one core.", ""]
    for name, lines in series.items():
        unit = lines[0]["about"]["unit"]
        page += [f"## {name[0].upper()}{name[1:]}", ""]
        base = lines[0]["cpu_s"] / lines[0]["events"]
        rows = [
            [
                f"{line['about']['value']:,}",
                times(line["cpu_s"] / line["events"] / base),
                f"{1e9 * line['cpu_s'] / line['events']:,.1f}",
                f"{line['answer']:,}",
                milliseconds(line["wall_s"]),
                milliseconds(line["spread_s"]),
                milliseconds(line["cpu_s"]),
                "" if line["peak_mb"] is None else f"{line['peak_mb']:,}",
            ]
            for line in lines
        ]
        page += table(
            [unit, "cost per event, times the first", "CPU ns per event", "rows found", "ms", "± ms", "CPU ms", "peak MB"], rows
        )
    return [*page, *cluster(run.lines, series)]


def cluster(lines: list[Line], series: dict[str, list[Line]]) -> list[str]:
    """What a cluster would do, and from which measurements."""
    fitted = model(lines)
    page = [
        "## The model",
        "",
        f"From the {fitted['points']} runs over unkeyed matches above: CPU time = {fitted['event_ns']:.1f} ns for each event and",
        f"{fitted['bound_ns']:.2f} ns for each event in a match. The fit is off by {fitted['median_error']:.0%} in the median and",
        f"{fitted['largest_error']:.0%} at worst. COUNT does not pay for matches: its cost depends on the pattern's length alone.",
        "",
    ]
    cores = {line["about"]["value"]: line for line in series.get("cores", [])}
    if 1 not in cores or 2 not in cores:
        return page
    one, two = cores[1], cores[2]
    per_event_s = one["cpu_s"] / one["events"]
    busier = two["cpu_s"] / one["cpu_s"]
    speedup = one["wall_s"] / two["wall_s"]
    halo = WINDOW / (PIECE * PIECES_PER_TASK)
    page += [
        "## What it predicts for a cluster",
        "",
        "Without keys, a stretch of time is a task of its own: it reads its part of the files and one window before it, and needs",
        "nothing from any other task. So T = N c (1 + W/S) b / cores, with",
        "",
        f"- c = {1e9 * per_event_s:.0f} ns of CPU per event from Parquet to a table of matches (*1 core* above, reading included),",
        f"- W/S = {halo:.1e}: the window over the length of a stretch, here {PIECE * PIECES_PER_TASK:,} events,",
        f"- b = {max(1.0, busier):.2f}: how much more CPU an event costs when both cores work (*2 cores* over *1 core*);",
        f"  by the clock two cores were {speedup:.2f} times as fast as one.",
        "",
        "| events | cores | predicted |",
        "|---:|---:|---:|",
    ]
    for n_events in (10**9, 10**11):
        for n_cores in (2, 16, 128, 1024):
            seconds = n_events * per_event_s * (1 + halo) * max(1.0, busier) / n_cores
            page.append(f"| {n_events:,} | {n_cores:,} | {_span(seconds)} |")
    return [
        *page,
        "",
        "Not in the model, because one machine cannot measure it: reading over a network, stragglers, and the start of a job",
        "(some seconds). More cores than stretches are of no use: a stretch should hold at least a hundred windows. Queries with",
        "keys have to move every event once, and there moving, not matching, is the cost; see the Spark measurements for that.",
    ]


def _span(seconds: float) -> str:
    return f"{seconds / 60:,.1f} min" if seconds >= 120 else f"{seconds:,.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"


# ---------------------------------------------------------------- other workloads, and the first page


def workload_page(run: Run) -> list[str]:
    """Any workload: contenders against the first of each task, then the numbers."""
    contests = by_task(run.lines)
    page = ["Ratios are between contenders of one task in one run: how many times as fast as the first (by CPU time).", ""]
    rows = []
    for (task, events), entries in contests.items():
        base = next(iter(entries.values()))
        for name, line in entries.items():
            ratio = faster(line, base, "cpu_s" if line["cpu_s"] and base["cpu_s"] else "wall_s")
            rows.append(
                [f"{task}, {name}", times(ratio) if line["right"] else "wrong", f"{events:,}", per_second(line), line["note"]]
            )
    if figures := judged(run.name.partition("-")[0], run.lines):
        page = ["## Figure by figure", "", *figures, "", "## Ratios", "", *page]
    return [
        *page,
        *table(["task, contender", "ratio", "events", "events/s", ""], rows),
        "## Absolute numbers",
        "",
        *numbers(contests),
    ]


def first_page(runs: dict[str, Run]) -> list[str]:
    page = [
        "# Benchmarks",
        "",
        "These pages are generated by `make bench` (after `make bench-peers`, which installs the systems compared with); nothing",
        "in them is typed by hand. `make bench BENCH=--full` takes hours and has larger inputs. `make bench-guard` fails when a",
        "kernel has become slower against fixed loops. Drawn, with numbers to hover over: [charts.html](charts.html).",
        "",
    ]
    if "peers" in runs:
        contests = by_task(runs["peers"].lines)
        made = {key: entries for key, entries in contests.items() if key[0].startswith("Q-")}
        page += ["## How many times as fast as its peers Seqube is", "", *provenance(runs["peers"]), *ratio_table(made)]
        page += [
            headline(made),
            "",
            "Who beats us:",
            "",
            *lost(contests),
            "",
            "More, and the numbers behind it: [peers](peers.md).",
            "",
        ]
    page += ["## Pages", ""]
    return page + [f"- [{title_of(name)}]({name}.md)" for name in runs]


def headline(made: dict[tuple[str, int], dict[str, Line]]) -> str:
    ratios = [found for entries in made.values() if FLINK in entries and (found := faster(entries[OURS], entries[FLINK]))]
    if not ratios:
        return "Flink CEP was not measured."
    verdict = "more than" if min(ratios) >= 100 else "**not everywhere**"
    return (
        f"Flink CEP: {times(min(ratios))} to {times(max(ratios))} times, median {times(statistics.median(ratios))}, at equal "
        f"sizes: {verdict} a hundred times."
    )


if __name__ == "__main__":
    print(write_report())
