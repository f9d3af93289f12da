"""Episode rules: "if these events occur in this partial order within w, that event follows before h".

A `Rule` is a frozen value; `Rules` is an ordered collection with distinct names that reads and writes the rule file. Checking
does not stop at the first mistake: one `QueryError` holds every problem of every rule, each naming its rule and, for files, its
line.

Shorthands: `"A -> B -> C"` is a chain; `"A, B -> C, D"` puts A and B (in any order) before both C and D.

| Paper (CBS-Tree) | Here |
|---|---|
| episode alpha, a DAG of distinct events | `vertices`, `edges` |
| consequent beta | `consequent` |
| predicate window w_alpha (closed: te - ts <= w) | `within` |
| rule window w_rho (open: the consequent lies in (te, ts + w)) | `horizon` |
| probability chi | `probability` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, overload

from seqube.arguments import checked
from seqube.errors import ArgumentError, DataError, Problem, QueryError, did_you_mean
from seqube.events.schema import UNITS
from seqube.language.parameters import Params, refuse_unknown
from seqube.language.tree import Query, Window
from seqube.predict.ruletext import Vertex, join_layers, read_length, split_layers, write_length

REQUIRED = ("predicate", "consequent", "within", "horizon", "probability")
KEYS = ("name", *REQUIRED, "partition_by", "lift")

RuleEdge = tuple[str, str]


@dataclass(frozen=True, init=False)
class Rule:
    """An episode rule: when these events have happened in this order, that one is to be expected.

    - `predicate`: a text such as "A, B -> C" (A and B in any order, both before C), or a mapping with `vertices` (alias -> event)
      and `edges` (pairs of aliases). An event is a type, or a type with a condition on its own columns: "Sensor WHERE flow > 40".
    - `consequent`: the event that is expected.
    - `within`: how long the predicate may take: "10 min", or a number in the unit of the time column.
    - `horizon`: until when after its start the consequent is expected.
    - `probability`: how often it comes.
    - `name`: the rule's own text unless given.
    - `partition_by`: columns; each of their values is a stream of its own.
    - `lift`: how many times more often it comes than after any event, where that is known; `mine` says it.

    >>> rule = sq.Rule("Triage, Lactate -> Fluids", "Transfer", "1 h", "3 h", 0.8)
    >>> rule.name
    'Triage, Lactate -> Fluids => Transfer'
    """

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[RuleEdge, ...]
    consequent: Vertex
    within: Window
    horizon: Window
    probability: float
    partition_by: tuple[str, ...] = field(default=())
    lift: float | None = None

    def __init__(
        self,
        predicate: str | Mapping[str, Any],
        consequent: str,
        within: int | str | Window,
        horizon: int | str | Window,
        probability: float,
        name: str | None = None,
        partition_by: str | Sequence[str] = (),
        lift: float | None = None,
    ) -> None:
        given = {"name": name, "predicate": predicate, "consequent": consequent, "within": within, "horizon": horizon}
        reading = _Reading({**given, "probability": probability, "partition_by": partition_by, "lift": lift}, "rule", ())
        if reading.problems:
            raise QueryError(reading.problems)
        self._fill(reading)

    @classmethod
    def _of(cls, reading: _Reading) -> Rule:
        rule = cls.__new__(cls)
        rule._fill(reading)
        return rule

    def _fill(self, reading: _Reading) -> None:
        for key, value in reading.fields.items():
            object.__setattr__(self, key, value)

    def _with_events(self, change: Callable[[Vertex], Vertex]) -> Rule:
        rule = copy(self)
        object.__setattr__(rule, "vertices", tuple(map(change, self.vertices)))
        object.__setattr__(rule, "consequent", change(self.consequent))
        return rule

    @property
    def predicate(self) -> str | dict[str, Any]:
        """The predicate as a rule file writes it: the shorthand where one says the same, else vertices and edges."""
        text = join_layers(self.vertices, self.edges)
        if text is not None:
            return text
        return {"vertices": {v.alias: v.text for v in self.vertices}, "edges": [list(edge) for edge in self.edges]}

    def to_dict(self) -> dict[str, Any]:
        """The rule as an entry of a rule file."""
        entry: dict[str, Any] = {
            "name": self.name,
            "predicate": self.predicate,
            "consequent": self.consequent.text,
            "within": write_length(self.within),
            "horizon": write_length(self.horizon),
            "probability": self.probability,
        }
        if self.lift is not None:
            entry["lift"] = self.lift
        if self.partition_by:
            entry["partition_by"] = self.partition_by[0] if len(self.partition_by) == 1 else list(self.partition_by)
        return entry

    @cached_property
    def lifts(self) -> dict[str, int]:
        """Aliases, each after all its successors, with the number of edges on the longest path to a sink."""
        return lifts_of(self.vertices, self.edges)

    def ticks(self, unit: str) -> tuple[int, int]:
        """`within` and `horizon` in ticks of a time column of this unit: rounded so that no whole-tick answer changes."""
        within, horizon = _ticks(self.within, unit), -_ticks(self.horizon, unit, -1)
        problems = list(_window_problems(f"rule {self.name!r}", within, horizon, max(self.lifts.values()), f"{unit} ticks", True))
        if problems:
            raise QueryError([problem for _, problem in problems])
        return within, horizon


def _read_definitions(document: Any, places: Mapping[tuple[Any, ...], Any], problems: list[Problem]) -> dict[str, Vertex]:
    """`define:` of a rule file: names that stand for an event, such as `Big: Trade WHERE price > 9`; one may use an earlier one."""
    section = document.get("define", {}) if isinstance(document, Mapping) else {}
    found: dict[str, Vertex] = {}
    if not isinstance(section, Mapping):
        problems.append(
            Problem("'define' is a mapping of names to events", places.get(("define",)), "Big: Trade WHERE price > 1000")
        )
        return found
    for name, text in section.items():
        try:
            found[str(name)] = Vertex.read(text, str(name)).expanded(found)
        except ValueError as error:
            problems.append(Problem(f"define {name!r}: {error}", places.get(("define", name))))
    return found


def _ticks(window: Window, unit: str, sign: int = 1) -> int:
    """The length in ticks times `sign`, rounded down: with sign -1 the length itself is rounded up."""
    return sign * window.length if window.unit == "ticks" else sign * window.length * UNITS["us"] // UNITS[unit]


class Rules(Sequence[Rule]):
    """Rules in order, each with its own name; a sequence, and by name as well.

    - `rules`: the rules. `load` reads a rule file, `from_dict` and `from_text` take what one holds.

    >>> rules = sq.Rules([sq.Rule("A -> B", "C", 10, 20, 0.5, name="jam")])
    >>> print(rules.to_text())
    rules:
    - name: jam
      predicate: A -> B
      consequent: C
      within: 10
      horizon: 20
      probability: 0.5
    <BLANKLINE>
    """

    @checked
    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        if strange := next((rule for rule in self._rules if not isinstance(rule, Rule)), None):
            raise ArgumentError(f"Rules: rules holds a {type(strange).__name__}, where each is a Rule")
        self._by_name = {rule.name: rule for rule in self._rules}
        if len(self._by_name) < len(self._rules):
            raise QueryError(list(_repeated_names([rule.name for rule in self._rules])))

    @classmethod
    @checked
    def load(cls, path: str | Path, params: Params | None = None) -> Rules:
        """Read a rule file (YAML). `params` are values for the parameters of its conditions (`:limit`), by name."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # a ValueError: bytes that are no text, or a zero byte in the path
            raise DataError(f"cannot read the rule file {str(path)!r}: {error}") from error
        rules = cls.from_text(text)
        refuse_unknown(rules.conditions, params or {})
        return rules.filled(params or {})

    @property
    def conditions(self) -> list[Query]:
        """The conditions of its events, each as a query over one event."""
        vertices = (vertex for rule in self for vertex in (*rule.vertices, rule.consequent))
        return [condition for vertex in vertices if (condition := vertex.condition) is not None]

    def filled(self, params: Params) -> Rules:
        """The rules with these values for the parameters of their conditions."""
        return Rules([rule._with_events(lambda vertex: vertex.filled(params)) for rule in self]) if params else self

    @classmethod
    @checked
    def from_text(cls, text: str) -> Rules:
        """Rules from the text of a rule file; problems carry their line."""
        from seqube.predict.ruletext import read_located_yaml

        document, places, problems = read_located_yaml(text)
        return cls._read(document, text, places, problems)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Rules:
        """Rules from what a rule file holds: `{"rules": [{"name": ..., "predicate": ..., ...}]}`."""
        return cls._read(document, "", {}, [])

    @classmethod
    def _read(cls, document: Any, source: str, places: Mapping[tuple[Any, ...], Any], problems: list[Problem]) -> Rules:
        entries: Any = []
        if problems and document is None:
            raise QueryError(problems, source)
        listed = document.get("rules") if isinstance(document, Mapping) else None
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            problems.append(Problem("a rule file holds a list called 'rules'", hint="start it with 'rules:' and a list of rules"))
        else:
            entries = listed
            others = [key for key in document if key not in ("rules", "define")]
            hint = "a rule file holds 'rules', and 'define' beside them"
            problems += [Problem(f"unknown key {key!r}", places.get((key,)), hint) for key in others]
        defined = _read_definitions(document, places, problems)
        rules: list[Rule] = []
        names: list[tuple[str, Any]] = []
        for number, entry in enumerate(entries):
            path = ("rules", number)
            if not isinstance(entry, Mapping):
                problems.append(Problem(f"rule {number + 1} is not a mapping", places.get(path), f"give it {', '.join(REQUIRED)}"))
                continue
            reading = _Reading(entry, f"rule {number + 1}", path, places)
            problems += reading.problems
            names.append((reading.name, places.get((*path, "name"), places.get(path))))
            if not reading.problems:
                rules.append(Rule._of(reading)._with_events(lambda vertex: vertex.expanded(defined)))
        problems += _repeated_names([name for name, _ in names], [place for _, place in names])
        if problems:
            raise QueryError(problems, source)
        return cls(rules)

    @checked
    def save(self, path: str | Path) -> None:
        """Write a rule file that `load` reads back as equal rules."""
        try:
            Path(path).write_text(self.to_text(), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise DataError(f"cannot write the rule file {str(path)!r}: {error}") from error

    def to_text(self) -> str:
        """The text of a rule file of these rules; `from_text` reads it back."""
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text: str = yaml.dump(self.to_dict(), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
        return text

    def to_dict(self) -> dict[str, Any]:
        """What a rule file of these rules holds; `from_dict` reads it back."""
        return {"rules": [rule.to_dict() for rule in self._rules]}

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    @overload
    def __getitem__(self, key: int | str) -> Rule: ...
    @overload
    def __getitem__(self, key: slice) -> Rules: ...
    def __getitem__(self, key: int | str | slice) -> Rule | Rules:
        if isinstance(key, str):
            return self._by_name[key]
        return Rules(self._rules[key]) if isinstance(key, slice) else self._rules[key]

    def __eq__(self, other: object) -> bool:
        return self._rules == other._rules if isinstance(other, Rules) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._rules)

    def __repr__(self) -> str:
        shown = ", ".join(rule.name for rule in self._rules[:3]) + (", ..." if len(self._rules) > 3 else "")
        return f"Rules({len(self._rules)}: {shown})"


def _repeated_names(names: Sequence[str], places: Sequence[Any] | None = None) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield Problem(f"two rules are called {name!r}", places[number] if places else None, "give each rule its own name")
        seen.add(name)


# ---------------------------------------------------------------- reading one rule


class _Reading:
    """The fields of one rule, read from what a user wrote, and everything that is wrong with them."""

    def __init__(
        self, entry: Mapping[Any, Any], fallback: str, path: tuple[Any, ...], places: Mapping[Any, Any] | None = None
    ) -> None:
        self.problems: list[Problem] = []
        self._path, self._places = path, places or {}
        name = entry.get("name")
        self.name = name if isinstance(name, str) and name.strip() else fallback
        self._named = self.name if self.name is name else None
        if name is not None and self._named is None:
            self._report(f"its name {name!r} is not a text", "name")
        for key in entry:
            if key not in KEYS:
                self._report(f"unknown key {key!r}", key, did_you_mean(str(key), KEYS))
        missing = [key for key in REQUIRED if entry.get(key) is None]
        for key in missing:
            self._report(f"{key!r} is missing", None, f"a rule has {', '.join(REQUIRED)}")
        self._read_fields({key: value for key, value in entry.items() if value is not None})

    @property
    def _who(self) -> str:
        return f"rule {self.name!r}" if self._named else self.name

    def _report(self, message: str, key: Any = None, hint: str | None = None) -> None:
        self._add(Problem(f"{self._who}: {message}", hint=hint), key)

    def _add(self, problem: Problem, key: Any) -> None:
        place = self._places.get((*self._path, key)) or self._places.get(self._path)
        self.problems.append(replace(problem, at=place))

    def _read_fields(self, entry: dict[Any, Any]) -> None:
        vertices, edges = self._read_predicate(entry["predicate"]) if "predicate" in entry else ((), ())
        consequent = self._read_vertex("consequent", entry["consequent"]) if "consequent" in entry else None
        windows = {key: self._read_window(key, entry[key]) for key in ("within", "horizon") if key in entry}
        within, horizon = windows.get("within"), windows.get("horizon")
        probability = self._read_probability(entry["probability"]) if "probability" in entry else None
        partition_by = self._read_partition(entry.get("partition_by", ()))
        lift = self._read_lift(entry.get("lift"))
        depth = max(lifts_of(vertices, edges).values(), default=0) if not self.problems else 0
        span, until = (window.length if window else None for window in (within, horizon))
        same_unit = within is not None and horizon is not None and within.unit == horizon.unit
        for key, problem in _window_problems(self._who, span, until, depth, "ticks", same_unit):
            self._add(problem, key)
        if self.problems or consequent is None:
            return
        if self._named is None:
            arrow = join_layers(vertices, edges) or ", ".join(f"{u} -> {v}" for u, v in edges)
            self.name = f"{arrow} => {consequent.text}"
        self.fields: dict[str, Any] = {
            "name": self.name,
            "vertices": vertices,
            "edges": edges,
            "consequent": consequent,
            "within": within,
            "horizon": horizon,
            "probability": probability,
            "partition_by": partition_by,
            "lift": lift,
        }

    def _read_vertex(self, key: str, text: Any, alias: str = "") -> Vertex | None:
        try:
            return Vertex.read(text, alias)
        except ValueError as error:
            self._report(f"{key}: {error}", key.partition(" ")[0])
            return None

    def _read_window(self, key: str, value: Any) -> Window | None:
        try:
            return read_length(value)
        except ValueError as error:
            self._report(f"{key}: {error}", key, "write '10 min', '1h30m', '500 ms', or a bare number in the time column's unit")
            return None

    def _read_probability(self, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            self._report(f"probability {value!r} is not a number from 0 to 1", "probability")
            return None
        return float(value)

    def _read_lift(self, value: Any) -> float | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf):
            self._report(f"lift {value!r} is not a number of times", "lift")
            return None
        return None if value is None else float(value)

    def _read_partition(self, value: Any) -> tuple[str, ...]:
        columns = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else (None,)
        if not all(isinstance(column, str) and column for column in columns):
            self._report(f"partition_by {value!r} does not name columns", "partition_by")
            return ()
        if len(set(columns)) < len(columns):
            self._report("partition_by names a column twice", "partition_by")
        return tuple(str(column) for column in columns)

    def _read_predicate(self, predicate: Any) -> tuple[tuple[Vertex, ...], tuple[RuleEdge, ...]]:
        if isinstance(predicate, str):
            try:
                layers = split_layers(predicate)
            except ValueError as error:
                self._report(f"predicate: {error}", "predicate", "write 'A -> B -> C' or 'A, B -> C'")
                return (), ()
            read = [[self._read_vertex("predicate", text) for text in layer] for layer in layers]
            vertices = tuple(Vertex(v.text, v.type, v.where) for layer in read for v in layer if v is not None)
            pairs = [(u.text, v.text) for a, b in pairwise(read) for u in a for v in b if u and v]
        elif isinstance(predicate, Mapping):
            vertices, pairs = self._read_graph(predicate)
        else:
            self._report("predicate is neither a text nor a graph", "predicate", "write 'A -> B', or vertices and edges")
            return (), ()
        if not vertices and not self.problems:
            self._report("its predicate has no events", "predicate", "name at least one event")
        if self._has_repeated(vertices):
            return vertices, ()  # its edges would seem to go in circles
        return vertices, self._check_edges(vertices, pairs)

    def _read_graph(self, graph: Mapping[Any, Any]) -> tuple[tuple[Vertex, ...], list[RuleEdge]]:
        for key in graph:
            if key not in ("vertices", "edges"):
                self._report(f"unknown key {key!r} in its predicate", "predicate", did_you_mean(str(key), ("vertices", "edges")))
        vertices = graph.get("vertices")
        if not isinstance(vertices, Mapping):
            self._report("'vertices' of its predicate is not a mapping", "predicate", "write vertices: {a: Event A, b: Event B}")
            return (), []
        read = [self._read_vertex(f"predicate vertex {alias!r}", text, str(alias)) for alias, text in vertices.items()]
        edges = graph.get("edges") or []
        if not isinstance(edges, Sequence) or isinstance(edges, str):
            self._report("'edges' of its predicate is not a list", "predicate", "write edges: [[a, b], [b, c]]")
            edges = []
        pairs = []
        for edge in edges:
            if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
                self._report(f"edge {edge!r} is not a pair of vertices", "predicate", "write edges: [[a, b], [b, c]]")
                continue
            pairs.append((str(edge[0]), str(edge[1])))
        return tuple(vertex for vertex in read if vertex is not None), pairs

    def _has_repeated(self, vertices: Sequence[Vertex]) -> bool:
        seen: set[tuple[str, str | None]] = set()
        for vertex in vertices:
            if (vertex.type, vertex.where) in seen:
                message = f"event {vertex.text!r} stands twice in its predicate"
                self._report(message, "predicate", "the events of a rule are distinct")
            seen.add((vertex.type, vertex.where))
        return len(seen) < len(vertices)

    def _check_edges(self, vertices: Sequence[Vertex], pairs: Iterable[RuleEdge]) -> tuple[RuleEdge, ...]:
        order = {vertex.alias: number for number, vertex in enumerate(vertices)}
        known = set()
        for edge in pairs:
            unknown = [alias for alias in edge if alias not in order]
            for alias in unknown:
                self._report(f"edge {list(edge)} names no vertex {alias!r}", "predicate", did_you_mean(alias, order))
            if not unknown:
                known.add(edge)
        edges = tuple(sorted(known, key=lambda edge: (order[edge[0]], order[edge[1]])))
        cycle = find_cycle(vertices, edges)
        if cycle:
            self._report(f"its predicate has a cycle: {' -> '.join(cycle)}", "predicate", "remove one of these edges")
        return edges


# ---------------------------------------------------------------- graphs and windows


def sorted_from_sinks(vertices: Sequence[Vertex], edges: Sequence[RuleEdge]) -> list[str]:
    """Aliases so that each stands after all its successors (sinks first); those on cycles, and before them, are left out."""
    waiting = {vertex.alias: 0 for vertex in vertices}
    for u, _ in edges:
        waiting[u] += 1
    before = _predecessors(vertices, edges)
    ready = [alias for alias, count in waiting.items() if not count]
    for alias in ready:
        for u in before[alias]:
            waiting[u] -= 1
            if not waiting[u]:
                ready.append(u)
    return ready


def _predecessors(vertices: Sequence[Vertex], edges: Sequence[RuleEdge]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {vertex.alias: [] for vertex in vertices}
    for u, v in edges:
        before[v].append(u)
    return before


def find_cycle(vertices: Sequence[Vertex], edges: Sequence[RuleEdge]) -> list[str]:
    """One cycle, its first alias repeated at the end; empty where there is none."""
    stuck = {vertex.alias for vertex in vertices} - set(sorted_from_sinks(vertices, edges))
    if not stuck:
        return []
    following = {u: v for u, v in reversed(edges) if u in stuck and v in stuck}
    path = [next(vertex.alias for vertex in vertices if vertex.alias in following)]
    while path[-1] not in path[:-1]:
        path.append(following[path[-1]])
    return path[path.index(path[-1]) :]


def lifts_of(vertices: Sequence[Vertex], edges: Sequence[RuleEdge]) -> dict[str, int]:
    """How many edges the longest path from each vertex to a sink has; each vertex stands after all its successors."""
    lifts = dict.fromkeys(sorted_from_sinks(vertices, edges), 0)
    before = _predecessors(vertices, edges)
    for alias in lifts:
        for u in before[alias]:
            lifts[u] = max(lifts[u], lifts[alias] + 1)
    return lifts


def _window_problems(
    who: str, within: int | None, horizon: int | None, depth: int, unit: str, comparable: bool
) -> Iterator[tuple[str, Problem]]:
    """What no event stream can satisfy, by key. `comparable` says that both lengths are in the same unit."""
    if within is not None and within < 0:
        yield "within", Problem(f"{who}: within {within} is negative", hint="give the longest time the predicate may span")
    elif within is not None and within < depth:
        message = f"{who}: {depth + 1} events one after the other never fit within {within} {unit}"
        yield "within", Problem(message, hint=f"within must be at least {depth}")
    if horizon is not None and horizon <= 0:
        yield "horizon", Problem(f"{who}: horizon {horizon} leaves no time for the consequent", hint="give a horizon above 0")
    elif comparable and within is not None and horizon is not None and 0 <= horizon < within:
        message = f"{who}: horizon is shorter than within, so the consequent would have to come before the predicate is complete"
        yield "horizon", Problem(message, hint="horizon counts from the first event of the predicate: make it longer than within")
    elif horizon is not None and comparable and horizon <= depth:
        message = f"{who}: horizon {horizon} {unit} is over before {depth + 1} events one after the other can have occurred"
        yield "horizon", Problem(message, hint=f"horizon must be above {depth}")
