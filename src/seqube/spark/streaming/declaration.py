"""A pipeline file, read strictly: what is wrong with it is said all at once, each with its place, before anything is started.

    source      format, path, type, time, unit, lateness, options      where events come from
                decode: {format, column, schema, options}, select      what its rows are made into before they are events
    schema      column: {type, required, min, max, allowed}            what is expected of them
    hierarchy   a path, or the tree itself                             the concepts above the event types
    queries     name: text, or the path of a *.sqb file
    rules       the path of a rule file, or its content                for predictions
    cubes       name: {pattern, every}                                 counts by the types at all positions, now and then
    sinks       matches, forecasts, cubes, quarantine, late, metrics: {path, format, options}; metrics: port
    trigger     how often a micro-batch is made, or `available now`: what is there, then stop
    drain       with `available now`: decide at the end what waits for events that could still come
    checkpoint  where the stream remembers how far it is
    strategy    how queries are evaluated: auto, or one by its name, also of those by which they share
    limits      max_matches, max_state_bytes, max_seconds              what a task or a micro-batch of a query may use

Relative paths start at the folder of the file; the hierarchy, the queries and the rules it names lie in that folder, or below.
There are queries, rules or cubes. Where the schema says which types are allowed, queries may name no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from seqube.cube import flat_query
from seqube.engine.limits import Limits
from seqube.errors import PlanError, Problem, QueryError, SchemaError, SequbeError, Span, did_you_mean, show_problems
from seqube.events import Hierarchy
from seqube.events.documents import parse_yaml, safe_loader
from seqube.events.schema import UNITS
from seqube.language import check, parse, parse_file
from seqube.language.parameters import fill, read_parameter, refuse_unknown
from seqube.language.tree import Parameter, Query, Window, query_nodes
from seqube.live_cube import counting
from seqube.plan.optimizer import AUTO
from seqube.plan.strategies import names
from seqube.predict.rules import Rules
from seqube.predict.ruletext import read_length
from seqube.spark.outlets import Outlet, open_outlet
from seqube.spark.sinks import FORMATS, Sink, is_url, may_be_url

LIMITED = ("max_matches", "max_state_bytes", "max_seconds")
SINKS = ("matches", "forecasts", "cubes", "quarantine", "late", "metrics")
AVAILABLE_NOW = "available now"
SOURCE = ("format", "path", "type", "time", "unit", "lateness", "options", "decode", "select")
DECODED = ("json", "csv", "avro")
_PERIOD = re.compile(r"\s*\d+(\.\d+)?\s*(ms|milliseconds?|s|sec|seconds?|min|minutes?|h|hours?|d|days?)\s*")


@dataclass(frozen=True, slots=True)
class Demand:
    """What is expected of one column."""

    type: str | None = None
    required: bool | None = None  # None: where a query or rule has it as its key
    min: float | str | None = None
    max: float | str | None = None
    allowed: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a column of texts or bytes is read: as JSON, CSV or Avro, into these columns."""

    format: str
    column: str
    schema: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeclaredCube:
    """A pattern, and the query that asks for its counts."""

    pattern: Query
    every: Window
    asked: Query


@dataclass(frozen=True, slots=True)
class Declaration:
    """A pipeline as its file says it."""

    file: Path
    format: str
    path: str | None
    options: Mapping[str, str]
    decode: Decoding | None
    select: Mapping[str, str]
    type: str
    time: str
    unit: str
    lateness: str
    schema: Mapping[str, Demand]
    hierarchy: Hierarchy | None
    queries: Mapping[str, Query]
    rules: Rules
    cubes: Mapping[str, DeclaredCube]
    sinks: Mapping[str, Sink | Outlet]
    port: int | None  # where metrics can be asked for
    trigger: str
    checkpoint: str | None
    limits: Limits
    drain: bool
    strategy: str  # how the queries are evaluated, and whether together
    files: tuple[Path, ...]  # this one, and those that it names

    @property
    def workload(self) -> dict[str, Query]:
        """All that is asked of the events beside predictions, by name."""
        return {**self.queries, **{name: cube.asked for name, cube in self.cubes.items()}}

    def sink_of(self, name: str) -> str:
        """The sink that the rows of a query or cube go to."""
        return "cubes" if name in self.cubes else "matches"


def read_declaration(path: str | Path) -> Declaration:
    """Read and check a pipeline file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"cannot read the pipeline file {file}: {error}") from None
    document = parse_yaml(text, str(file))
    reader = _Reader(file, text)
    if not isinstance(document, Mapping):
        raise SchemaError(f"{file} holds no pipeline\n  hint: it begins with 'source:', 'queries:' and 'sinks:'")
    declared = reader.read(document)
    if reader.problems:
        ordered = sorted(reader.problems, key=lambda problem: (problem.at.line, problem.at.column) if problem.at else (0, 0))
        raise SchemaError(f"in {file}:\n{show_problems(ordered, text)}")
    return declared


@dataclass
class _Reader:
    file: Path
    text: str
    problems: list[Problem] = field(default_factory=list)
    places: dict[tuple[str, ...], Span] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        import yaml

        self._note(yaml.compose(self.text, safe_loader()), ())

    def _note(self, node: Any, path: tuple[str, ...]) -> None:
        """Remember where every key stands."""
        import yaml

        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                mark = key.start_mark
                here = (*path, str(key.value))
                self.places[here] = Span(mark.line + 1, mark.column + 1, max(1, len(str(key.value))))
                self._note(value, here)

    def fail(self, message: str, *path: str, hint: str | None = None) -> None:
        at = next((self.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.places), None)
        self.problems.append(Problem(message, at, hint))

    # ------------------------------------------------------------ sections

    def read(self, document: Mapping[str, Any]) -> Declaration:
        known = ("source", "schema", "hierarchy", "queries", "params", "rules", "cubes", "sinks", "trigger", "drain", "checkpoint")
        self._known(document, (*known, "limits", "strategy"))
        for section in ("source", "sinks", *(() if {"rules", "cubes"} & document.keys() else ("queries",))):
            if section not in document:
                self.fail(f"there is no {section!r}", hint=f"add '{section}:' to the file")
        source = self._mapping(document, "source", SOURCE)
        options = self._options(source, "source")
        format_ = self._string(source, "format", "parquet", "source")
        path = source.get("path")
        if path is not None:
            path = self._path(path, "source", "path")
            if not is_url(path) and not set("*?[{") & set(path) and not Path(path).exists():
                self.fail(f"there is no {path}", "source", "path")
        elif format_ in FORMATS and "path" not in options and "source" in document:
            self.fail("the source has no path", "source", hint="path: the folder or file of events")
        unit = self._string(source, "unit", "ms", "source")
        if unit not in UNITS:
            self.fail(f"unknown time unit {unit!r}", "source", "unit", hint=f"one of {', '.join(UNITS)}")
        checkpoint = document.get("checkpoint")
        type_column = self._string(source, "type", "type", "source")
        schema, hierarchy = self._schema(document.get("schema") or {}), self._hierarchy(document.get("hierarchy"))
        params = self._params(document.get("params"))
        rules = self._rules(document.get("rules"))
        queries, patterns = self._queries(document.get("queries")), self._cubes(document.get("cubes"))
        for name in queries.keys() & patterns.keys():
            self.fail(f"{name!r} is a query and a cube", "cubes", name, hint="give one of them another name")
        filled = self._with_values({**queries, **{name: pattern for name, (pattern, _) in patterns.items()}}, params, rules)
        queries = {name: filled[name] for name in queries if name in filled}
        cubes = {
            name: DeclaredCube(filled[name], every, counting(filled[name], every))
            for name, (_, every) in patterns.items()
            if name in filled
        }
        if type_column in schema and schema[type_column].allowed:
            self._check_types(filled, [*schema[type_column].allowed, *(hierarchy.names if hierarchy else ())])
        return Declaration(
            self.file,
            format_,
            path,
            options,
            self._decode(source.get("decode"), schema),
            self._select(source.get("select")),
            type_column,
            self._string(source, "time", "ts", "source"),
            unit,
            self._period(source.get("lateness", "0 seconds"), "source", "lateness"),
            schema,
            hierarchy,
            queries,
            rules.filled(params),
            cubes,
            self._sinks(
                document.get("sinks"),
                {"matches": "queries" in document, "forecasts": "rules" in document, "cubes": "cubes" in document},
            ),
            self._port(document.get("sinks")),
            self._trigger(document.get("trigger", "1 second")),
            None if checkpoint is None else self._path(checkpoint, "checkpoint"),
            self._limits(document),
            self._drain(document),
            self._strategy(document),
            (self.file, *self.files),
        )

    def _strategy(self, document: Mapping[str, Any]) -> str:
        strategy = self._string(document, "strategy", AUTO)
        if strategy not in (AUTO, *names()):
            self.fail(f"there is no strategy {strategy!r}", "strategy", hint=did_you_mean(strategy, (AUTO, *names())))
        return strategy

    def _schema(self, section: Any) -> dict[str, Demand]:
        found: dict[str, Demand] = {}
        if not isinstance(section, Mapping):
            self.fail("the schema is a mapping of columns", "schema", hint="id: {type: bigint, required: true}")
            return found
        for name, declared in section.items():
            path = ("schema", str(name))
            demands = {"type": declared} if isinstance(declared, str) else declared
            if not isinstance(demands, Mapping):
                self.fail(
                    f"the column {name!r} needs a type, or a mapping", *path, hint="bigint, or {type: bigint, required: true}"
                )
                continue
            self._known(demands, ("type", "required", "min", "max", "allowed"), *path)
            kind, allowed, required = demands.get("type"), demands.get("allowed", ()), demands.get("required")
            if kind is not None and not _is_type(kind):
                self.fail(f"{kind!r} is no type", *path, "type", hint="string, bigint, int, double, boolean, timestamp, date ...")
            if required is not None and not isinstance(required, bool):
                self.fail("required is true or false", *path, "required")
                required = None
            if not isinstance(allowed, (list, tuple)):
                self.fail("allowed is a list of values", *path, "allowed", hint="[A, B]")
                allowed = ()
            found[str(name)] = Demand(kind, required, demands.get("min"), demands.get("max"), tuple(allowed))
        return found

    def _hierarchy(self, section: Any) -> Hierarchy | None:
        if section is None:
            return None
        try:
            if isinstance(section, str):
                return Hierarchy.load(self._beside(section))
            return Hierarchy.from_dict(section)
        except SequbeError as error:
            message, _, hint = str(error).partition("\n  hint: ")
            self.fail(message, "hierarchy", hint=hint or None)
        return None

    def _queries(self, section: Any) -> dict[str, Query]:
        found: dict[str, Query] = {}
        if isinstance(section, str):
            try:
                found = parse_file(self._beside(section).read_text(encoding="utf-8"))
                for name in found:
                    self._check_name(name, "queries")
            except SchemaError as error:
                self.fail(str(error), "queries")
            except (OSError, UnicodeDecodeError) as error:
                self.fail(f"the query file cannot be read: {error}", "queries")
            except QueryError as error:
                self._fail_query(error, f"in {section}", "queries")
            return found
        if section is not None and (not isinstance(section, Mapping) or not section):
            self.fail("queries are a mapping of names to texts, or the path of a *.sqb file", "queries")
            return found
        for name, text in (section or {}).items():
            self._check_name(str(name), "queries", str(name))
            try:
                if not isinstance(text, str):
                    self.fail(f"the query {name!r} is no text", "queries", str(name))
                    continue
                found[str(name)] = parse(text)
            except QueryError as error:
                self._fail_query(error, f"in the query {name!r}", "queries", str(name))
        return found

    def _cubes(self, section: Any) -> dict[str, tuple[Query, Window]]:
        found: dict[str, tuple[Query, Window]] = {}
        hint = "pairs: {pattern: 'SEQ(A a, B b) WITHIN 1 min', every: 10 s}"
        if section is not None and (not isinstance(section, Mapping) or not section):
            self.fail("cubes are a mapping of names to patterns", "cubes", hint=hint)
            return found
        for name, declared in (section or {}).items():
            path = ("cubes", str(name))
            self._check_name(str(name), *path)
            if not isinstance(declared, Mapping) or not isinstance(declared.get("pattern"), str):
                self.fail(f"the cube {name!r} has no pattern", *path, hint=hint)
                continue
            self._known(declared, ("pattern", "every"), *path)
            try:
                pattern, every = flat_query(parse(declared["pattern"])), read_length(declared.get("every"))
                counting(pattern, every)
                found[str(name)] = pattern, every
            except QueryError as error:
                self._fail_query(error, f"in the cube {name!r}", *path)
            except PlanError as error:
                message, _, advice = str(error).partition("\n  hint: ")
                self.fail(f"the cube {name!r}: {message}", *path, hint=advice)
            except ValueError:
                self.fail(f"{declared.get('every')!r} is no length of time", *path, hint="every: 10 s")
        return found

    def _params(self, section: Any) -> dict[str, Any]:
        if section is not None and not isinstance(section, Mapping):
            self.fail("params are a mapping of names to values", "params", hint="limit: 500")
            return {}
        texts = {str(name): value for name, value in (section or {}).items()}
        # A length of time is a text in YAML; other texts are what they are.
        lengths = {name: read_parameter(value) for name, value in texts.items() if isinstance(value, str)}
        return {name: lengths[name] if isinstance(lengths.get(name), timedelta) else value for name, value in texts.items()}

    def _with_values(self, queries: Mapping[str, Query], params: Mapping[str, Any], rules: Rules) -> dict[str, Query]:
        """The queries with the values of `params`; each parameter of a query has one, and each value stands somewhere."""
        filled: dict[str, Query] = {}
        for name, query in queries.items():
            try:
                filled[name] = fill(query, params)
            except QueryError as error:
                self._fail_query(error, f"in the query {name!r}", "params")
            for node in query_nodes(query):
                if isinstance(node, Parameter) and node.name not in params:
                    place = ("queries" if ("queries", name) in self.places or ("cubes", name) not in self.places else "cubes", name)
                    self.fail(f"there is no value for :{node.name}", *place, hint=f"add {node.name} to 'params:'")
        if not self.problems:
            try:
                refuse_unknown([*queries.values(), *rules.conditions], params)
            except QueryError as error:
                self.fail(error.problems[0].message, "params", hint=error.hint)
        return filled

    def _check_types(self, queries: Mapping[str, Query], known: list[str]) -> None:
        for name, query in queries.items():
            try:
                check(query, None, known)
            except QueryError as error:
                self._fail_query(error, f"in the query {name!r}", "queries", name)

    def _rules(self, section: Any) -> Rules:
        if section is None:
            return Rules()
        try:
            if isinstance(section, str) or (isinstance(section, list) and section):
                return Rules.load(self._beside(section)) if isinstance(section, str) else Rules.from_dict({"rules": section})
            self.fail("rules are the path of a rule file, or a list of rules", "rules")
        except QueryError as error:
            self._fail_query(error, f"in {section}" if isinstance(section, str) else "in the rules", "rules")
        except SequbeError as error:
            self.fail(str(error), "rules")
        return Rules()

    def _check_name(self, name: str, *path: str) -> None:
        if not re.fullmatch(r"[\w-][\w.-]*", name):
            self.fail(f"{name!r} cannot name a query: results are in a folder of that name", *path, hint="letters, digits, _ and -")

    def _fail_query(self, error: QueryError, where: str, *path: str) -> None:
        for problem in error.problems:
            there = f", line {problem.at.line}, column {problem.at.column}" if problem.at else ""
            self.fail(f"{where}{there}: {problem.message}", *path, hint=problem.hint)

    def _sinks(self, section: Any, needed: Mapping[str, bool]) -> dict[str, Sink | Outlet]:
        found: dict[str, Sink | Outlet] = {}
        if section is None:
            return found
        if not isinstance(section, Mapping):
            self.fail("sinks are a mapping", "sinks", hint="matches: {path: out/matches}")
            return found
        self._known(section, SINKS, "sinks")
        for name, is_needed in needed.items():
            if is_needed and name not in section:
                self.fail(f"there is no sink for {name}", "sinks", hint=f"{name}: {{path: out/{name}}}")
        for name, declared in section.items():
            place = {"path": declared} if isinstance(declared, str) else declared
            if not isinstance(place, Mapping):
                self.fail(f"the sink {name!r} has no path", "sinks", str(name), hint=f"{name}: {{path: out/{name}}}")
                continue
            self._known(place, ("path", "format", "options", *(("port",) if name == "metrics" else ())), "sinks", str(name))
            found |= self._sink(str(name), place)
        return found

    def _sink(self, name: str, place: Mapping[str, Any]) -> dict[str, Sink | Outlet]:
        kind = self._string(place, "format", "json" if name == "metrics" else "parquet", "sinks", name)
        options, path = self._options(place, "sinks", name), place.get("path")
        if kind in FORMATS and not isinstance(path, str):
            self.fail(f"the sink {name!r} has no path", "sinks", name, hint=f"{name}: {{path: out/{name}}}")
            return {}
        folder = "" if path is None else self._path(path, "sinks", name)
        try:
            return {name: Sink(folder, kind, options) if kind in FORMATS else open_outlet(kind, options, folder)}
        except SchemaError as error:
            message, _, hint = str(error).partition("\n  hint: ")
            self.fail(message, "sinks", name, hint=hint or None)
            return {}

    def _port(self, section: Any) -> int | None:
        place = section.get("metrics") if isinstance(section, Mapping) else None
        port = place.get("port") if isinstance(place, Mapping) else None
        if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65_536):
            self.fail(f"{port!r} is no port", "sinks", "metrics", "port", hint="9108")
            return None
        return port

    def _decode(self, section: Any, schema: Mapping[str, Demand]) -> Decoding | None:
        if section is None:
            return None
        path = ("source", "decode")
        if not isinstance(section, Mapping):
            self.fail(
                "decode is a mapping", *path, hint="{format: json, column: value, schema: 'type string, ts timestamp, id bigint'}"
            )
            return None
        self._known(section, ("format", "column", "schema", "options"), *path)
        kind = self._string(section, "format", "json", *path)
        if kind not in DECODED:
            self.fail(f"{kind!r} cannot be decoded", *path, "format", hint=f"one of {', '.join(DECODED)}")
        columns = self._string(section, "schema", "", *path)
        if not columns and kind != "avro" and schema and all(demand.type for demand in schema.values()):
            columns = ", ".join(f"`{name}` {demand.type}" for name, demand in schema.items())
        if not columns:
            self.fail("decode needs the columns that come of it", *path, hint="schema: 'type string, ts timestamp, id bigint'")
        return Decoding(kind, self._string(section, "column", "value", *path), columns, self._options(section, *path))

    def _select(self, section: Any) -> dict[str, str]:
        if section is None:
            return {}
        if not isinstance(section, Mapping) or not all(isinstance(text, str) for text in section.values()):
            self.fail(
                "select is a mapping of columns to expressions",
                "source",
                "select",
                hint="{type: upper(kind), ts: 'to_timestamp(at)'}",
            )
            return {}
        return {str(name): text for name, text in section.items()}

    def _options(self, section: Mapping[str, Any], *path: str) -> dict[str, str]:
        options = section.get("options", {})
        if not isinstance(options, Mapping):
            self.fail("options are a mapping of names to values", *path, "options")
            return {}
        return {str(name): _option(value) for name, value in options.items()}

    def _limits(self, document: Mapping[str, Any]) -> Limits:
        limits = Limits()
        for name, value in self._mapping(document, "limits", LIMITED).items():
            try:
                limits = replace(limits, **{name: value}) if name in LIMITED else limits
            except PlanError as error:
                self.fail(str(error).replace("None", "null"), "limits", name)
        return limits

    def _trigger(self, value: Any) -> str:
        return AVAILABLE_NOW if value == AVAILABLE_NOW else self._period(value, "trigger")

    def _drain(self, document: Mapping[str, Any]) -> bool:
        value = document.get("drain", False)
        if not isinstance(value, bool):
            self.fail("drain is true or false", "drain")
        elif value and document.get("trigger") != AVAILABLE_NOW:
            self.fail("drain is for streams that end", "drain", hint=f"trigger: {AVAILABLE_NOW}")
        return value is True

    # ------------------------------------------------------------ values

    def _known(self, section: Mapping[str, Any], names: tuple[str, ...], *path: str) -> None:
        for name in section:
            if name not in names:
                self.fail(f"unknown key {str(name)!r}", *path, str(name), hint=did_you_mean(str(name), names))

    def _mapping(self, document: Mapping[str, Any], name: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
        section = document.get(name, {})
        if not isinstance(section, Mapping):
            self.fail(f"{name!r} is a mapping", name, hint=f"{', '.join(keys)}")
            return {}
        self._known(section, keys, name)
        return section

    def _string(self, section: Mapping[str, Any], name: str, default: str, *path: str) -> str:
        value = section.get(name, default)
        if not isinstance(value, str):
            self.fail(f"{name!r} is a text, not {value!r}", *path, name)
            return default
        return value

    def _period(self, value: Any, *path: str) -> str:
        if not isinstance(value, str) or not _PERIOD.fullmatch(value):
            self.fail(f"{value!r} is no length of time", *path, hint="10 seconds, 5 minutes, 500 milliseconds")
            return "0 seconds"
        return re.sub(r"\b(ms|s|sec|min|h|d)\b", lambda found: _WORDS[found[0]], value.strip())

    def _path(self, value: Any, *path: str) -> str:
        if not isinstance(value, str) or not value:
            self.fail(f"{value!r} is no path", *path)
            return ""
        if is_url(value):
            return value
        if may_be_url(value):
            hint = "a URL begins like s3a://bucket, a folder whose name holds a colon like ./a:b"
            self.fail(f"{value!r} is neither a path nor a URL", *path, hint=hint)
            return ""
        try:
            return str(self._resolve(value))
        except SchemaError as error:
            self.fail(str(error), *path)
            return ""

    def _beside(self, path: str) -> Path:
        """A file that is read because this one says so: it stands in the same folder, or below."""
        found = self._resolve(path)
        if not found.is_relative_to(self.file.resolve().parent):
            raise SchemaError(f"{path!r} is outside of the folder of this file\n  hint: keep it beside the pipeline file, or below")
        self.files.append(found)
        return found

    def _resolve(self, path: str) -> Path:
        try:
            found = (self.file.resolve().parent / Path(path).expanduser()).resolve()
            found.exists()  # raises where a name is too long, or holds a NUL
        except (OSError, RuntimeError, ValueError) as error:  # also a loop of links, or the home of an unknown user
            raise SchemaError(f"{path!r} is no path: {error}") from None
        return found


_WORDS = {"ms": "milliseconds", "s": "seconds", "sec": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_TYPES: tuple[str, ...] = (
    "string", "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "double", "date",
    "timestamp", "timestamp_ntz", "binary",
)  # fmt: skip


def _is_type(text: Any) -> bool:
    return isinstance(text, str) and (
        text.lower() in _TYPES or re.fullmatch(r"(?i)(decimal|array|map|struct)\s*[(<].*", text) is not None
    )


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
