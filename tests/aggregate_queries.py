"""Random queries with AGG, and what the oracle says about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import oracle
import seqube as sq
from seqube.language import parse
from seqube.language.mentions import positives
from seqube.plan.aggregates import chain_of, plan_aggregates
from seqube.plan.chains import EventChain
from seqube.plan.sharing import Counted, counted
from strategies import PARTITIONS, plain, queries, table, windows

EMITS = ("ON TRIGGER", "ON TRIGGER", "TOTAL", "EVERY {}", "PER 4")  # one period for all
MEASURED = ("x", "y", "w", "u", "c", "ts", "d")
FUNCTIONS = ["SUM", "AVG", "MIN", "MAX", "STDDEV"]


@st.composite
def with_aggregates(draw: st.DrawFn, base: str, period: str | None = None, durations: bool = True) -> str:
    """A query's text with AGG, and often GROUP BY, HAVING and EMIT."""
    query = parse(base)
    variables = [str(leaf.variable) for leaf in positives(query.pattern)]
    names = ["x", "y", "w", "u", "c", *(["ts"] if period is None else []), *(["d"] if durations else [])]
    argument = st.builds("{}.{}".format, st.sampled_from(variables), st.sampled_from(names))
    aggregate = st.builds("{}({})".format, st.sampled_from(FUNCTIONS), argument)
    aggregate |= st.builds("VARIANCE({}.{})".format, st.sampled_from(variables), st.sampled_from([n for n in names if n != "d"]))
    if period is not None:
        aggregate |= st.builds("{}({}.ts)".format, st.sampled_from(["MIN", "MAX"]), st.sampled_from(variables))
    items = draw(st.lists(aggregate | st.just("APPROX_COUNT(*)"), max_size=3, unique=True))
    lines = [base, "AGG " + ", ".join(["COUNT(*) AS n", *(f"{item} AS a{i}" for i, item in enumerate(items))])]
    single = [str(leaf.variable) for leaf in positives(query.pattern) if not leaf.is_list]
    keys = st.builds("{}.{}".format, st.sampled_from(single or variables), st.sampled_from(["id", "s", "type", "y", "u", "c", "k"]))
    if query.partition_by:
        keys = keys | st.sampled_from(query.partition_by)
    if single and draw(st.booleans()):
        lines.append("GROUP BY " + ", ".join(draw(st.lists(keys, min_size=1, max_size=2, unique=True))))
    if draw(st.integers(0, 3)) == 3:
        lines.append(
            "HAVING "
            + draw(
                st.sampled_from(
                    [
                        "n > 1",
                        "COUNT(*) = 0 OR n >= 2",
                        f"MAX({variables[0]}.x) > 0",
                        "n * 2 < 5",
                        f"STDDEV({variables[-1]}.x) > 1 OR VARIANCE({variables[0]}.y) <= 1.125",
                        f"SUM({variables[0]}.c) IN (0.3, 0.1, 0.6)",
                        f"MAX({variables[0]}.u) = 18446744073709551615",
                        f"SUM({variables[0]}.w) > 9007199254740992.0",
                    ]
                )
            )
        )
    every = ["EMIT EVERY 1", "EMIT EVERY 3 ms"] if period is None else [f"EMIT EVERY 2 {period}", f"EMIT EVERY 3 {period}"]
    per = [text.replace("EVERY", "PER") for text in every]
    emit = draw(st.sampled_from(["", "", "EMIT ON TRIGGER", *every, *per, "EMIT TOTAL"]))
    return "\n".join([*lines, emit]) if emit else "\n".join(lines)


def aggregate_queries(**how: Any) -> st.SearchStrategy[str]:
    return queries(**how).flatmap(with_aggregates)


def expected(text: str, events: Sequence[oracle.Event], hierarchy: Any = None) -> list[dict[str, Any]]:
    return oracle.aggregates(parse(text), events, hierarchy)


def found(text: str, events: Sequence[oracle.Event], hierarchy: Any = None, strategy: str = "auto") -> list[dict[str, Any]]:
    given = sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    rows: list[dict[str, Any]] = sq.run(text, table(events), hierarchy=given, strategy=strategy).table.to_pylist()
    return rows


def assert_same_rows(actual: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Equal as multisets; doubles up to rounding, since sums may be added in any order."""
    assert sorted(map(_key, actual)) == sorted(map(_key, wanted))


def _key(row: dict[str, Any]) -> str:
    return repr({name: plain(value) for name, value in row.items()})


COUNTED = ["window-product", "per-start"]


@st.composite
def chains(draw: st.DrawFn, names: Sequence[str] = ("A", "B", "C"), counted: bool | None = None, both_keys: bool = False) -> str:
    """A query that needs no matches: single events in sequence, negated ones anywhere, one key, predicates on one event.

    `both_keys` asks for one event with a key and another key in PARTITION BY: where the first is null, the second still counts.
    """
    parts = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(names)), min_size=1 + both_keys, max_size=5))
    negated = [place > 0 if both_keys else number == 3 for place, (number, _) in enumerate(parts)]
    if both_keys:
        negated = draw(st.permutations(negated))
    if all(negated):
        negated[0] = False
    variables = [f"v{i}" for i in range(len(parts))]
    texts = [f"{'!' * no}{name} {v}" for no, (_, name), v in zip(negated, parts, variables, strict=True)]
    lines = [f"PATTERN SEQ({', '.join(texts)})"]
    where = draw(
        st.sampled_from(
            ["[id]", "key"] if both_keys else ["", "", "[id]", "[s]", "[u]", "[c]", "[k]", "own", "own", "key", "local"]
        )
    )
    positive = [v for v, no in zip(variables, negated, strict=True) if not no]
    keyed = positive + [v for v, no in zip(variables, negated, strict=True) if no and draw(st.booleans())]
    if where == "key" and len(keyed) > 1:
        where = " AND ".join(f"{v}.id = {positive[0]}.id" for v in keyed[1:])
    elif where in ("own", "key", "local"):
        tests = draw(st.sampled_from([["x > 0"], ["f", "s != 'q'"]]))
        where = " AND ".join(f"{draw(st.sampled_from(variables))}.{test}" for test in tests)
    if where:
        lines.append(f"WHERE {where}")
    if both_keys or draw(st.integers(0, 3)) == 3:
        lines.append("PARTITION BY " + draw(st.sampled_from(["s", "f"] if both_keys else PARTITIONS)))
    lines.append("WITHIN " + draw(windows(counted)))
    return draw(with_aggregates("\n".join(lines)))


@st.composite
def repeated_chains(draw: st.DrawFn, names: Sequence[str] = ("A", "B", "C")) -> str:
    """A query that needs no matches, of parts that are repeated or may be absent, with negations, a key or predicates."""
    parts = draw(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(names)), min_size=1, max_size=4))
    negated = [number == 4 for number, _ in parts]
    if all(negated):
        negated[0] = False
    quantifiers = st.sampled_from(["+", "*", "?", "{2}", "{2,}", "{1,2}", "{,2}", "{2,3}", "", ""])
    variables = [f"v{i}" for i in range(len(parts))]
    each = zip(negated, parts, variables, strict=True)
    texts = [f"!{name} {v}" if no else f"{name}{draw(quantifiers)} {v}" for no, (_, name), v in each]
    lines = [f"PATTERN SEQ({', '.join(texts)})"]
    where = draw(st.sampled_from(["", "", "[id]", "[s]", "own"]))
    if where == "own":
        where = f"{draw(st.sampled_from(variables))}.{draw(st.sampled_from(['x > 0', 'f']))}"
    if where:
        lines.append(f"WHERE {where}")
    if draw(st.integers(0, 3)) == 3:
        lines.append("PARTITION BY " + draw(st.sampled_from(PARTITIONS)))
    lines.append("WITHIN " + draw(windows()))
    return draw(with_aggregates("\n".join(lines)))


def applies(text: str) -> bool:
    """Whether a query can be answered without building matches."""
    return isinstance(chain_of(plan_aggregates(parse(text))), EventChain)


def shareable(text: str) -> Counted | str:
    plan = plan_aggregates(parse(text))
    return counted(plan, chain_of(plan), "ms")


@st.composite
def families(draw: st.DrawFn, emits: Sequence[str] = EMITS, columns: Sequence[str] = MEASURED) -> dict[str, str]:
    """Queries of every shape that is shared, most of them in common lanes: keys, groups, negations, sums, extremes, any EMIT."""
    queries: dict[str, str] = {}
    key = draw(st.sampled_from(["", "[id]", "[s]"]))
    partition = draw(st.sampled_from(["", "", " PARTITION BY k"]))
    window = draw(st.sampled_from([3, 6]))
    every = draw(st.sampled_from([1, 3]))
    for number in range(draw(st.integers(2, 4))):
        names = draw(st.lists(st.sampled_from("ABC"), min_size=2 if key else 1, max_size=4))
        parts = [f"{name} v{i}" for i, name in enumerate(names)]
        for place in sorted(draw(st.sets(st.integers(1, len(names)), max_size=2)), reverse=True):
            if place < len(names) or draw(st.booleans()):
                parts.insert(place, f"!{draw(st.sampled_from('ABC'))} n{place}")
        where = draw(st.sampled_from(["", "", f" WHERE v{len(names) - 1}.x > 0", " WHERE v0.f"]))
        variables = [f"v{i}" for i in range(len(names))]
        argument = st.builds("{}.{}".format, st.sampled_from(variables), st.sampled_from(columns))
        asked = draw(
            st.lists(st.builds("{}({})".format, st.sampled_from(["SUM", "AVG", "MIN", "MAX"]), argument), max_size=2, unique=True)
        )
        emit = draw(st.sampled_from(emits)).format(every)
        group = [f"v0.{key[1:-1]}", f"v{len(names) - 1}.{key[1:-1]}"] if key else []
        group += ["k"] if partition else []
        by = draw(st.sampled_from(["", *(f" GROUP BY {each}" for each in group)]))
        aggregates = ", ".join(["COUNT(*) AS n", *(f"{each} AS a{i}" for i, each in enumerate(asked))])
        keyed = f", {key}" if key else ""
        text = f"SEQ({', '.join(parts)}{keyed}){where}{partition}{by} WITHIN {window} AGG {aggregates} EMIT {emit}"
        if isinstance(shareable(text), Counted):
            queries[f"q{number}"] = text
    return queries
