"""The text of a MATCH_RECOGNIZE clause to a draft: names as they were written, nothing resolved yet.

The text is that of the whole statement with everything outside the clause blanked out, so that every place is a place in what the
user wrote. Values are built by the builder of Seqube's own language. Cost: linear in the text.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from seqube.errors import Problem, QueryError, Span, did_you_mean
from seqube.language import tree
from seqube.language.functions import PLAIN_CALLS, SQL_CASTS, VALUE_FUNCTIONS
from seqube.language.parser import Builder, as_item, as_predicate, check_limits, in_order
from seqube.language.rows import tree as rows
from seqube.language.rows.recovery import read_in_parts
from seqube.language.rows.synonyms import ARRAY, in_known_functions
from seqube.language.tokens import MAX_INT64, UNIT_US, at_token, cover, fail, microseconds_of, name_of, place, whole_of
from seqube.language.tree import Attribute, Literal, Predicate, Value

if TYPE_CHECKING:
    from lark import Lark, Token

NAVIGATIONS = ("PREV", "NEXT", "FIRST", "LAST")
FOLDS = (
    "COUNT", "SUM", "AVG", "MIN", "MAX", "MIN_BY", "MAX_BY", "EVERY", "BOOL_AND", "BOOL_OR", "ANY_VALUE", "STDDEV", "STDDEV_SAMP",
    "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP", "MEDIAN", "ARRAY_AGG", "LISTAGG", "STRING_AGG", "ARBITRARY",
)  # fmt: skip
OF_ROWS = (*NAVIGATIONS, *FOLDS, "CLASSIFIER", "MATCH_NUMBER")
ALL_ROWS = "*"  # the argument of COUNT(*) and COUNT(a.*)
QUERIED, AMONG_QUERIED, EXISTS_QUERIED = "QUERIED", "IN QUERIED", "EXISTS QUERIED"  # calls in a draft, until the rows are known
MAX_REPEATS = 10_000  # repetitions that are written as a number: each is a state of the machine
_ALSO_CAST = {"SMALLINT": "BIGINT", "TINYINT": "BIGINT", "CHAR": "VARCHAR"}
_WORDS = ("PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE")


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it is known (in capitals, unless it has quotes), and where it stands."""

    text: str
    written: str
    at: Span


@dataclass(frozen=True, slots=True)
class ClauseDraft:
    """The clause as written."""

    partition_by: tuple[Name, ...] = ()
    order_by: tuple[tuple[Name, bool, bool], ...] = ()
    measures: tuple[tuple[Value, Name | None], ...] = ()
    shown: rows.RowsShown = "one"
    skip: tuple[str, Name | None, Span | None] = ("PAST LAST", None, None)
    pattern: rows.RowPattern | None = None
    within: Value | None = None
    subsets: tuple[tuple[Name, tuple[Name, ...]], ...] = ()
    definitions: tuple[tuple[Name, Predicate], ...] = ()
    places: dict[str, Span] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def draft_clause(text: str) -> ClauseDraft:
    """Parse the clause; what is wrong with its grammar is among the problems of the draft, or raised where nothing can be bound."""
    try:
        return _read(text)
    except QueryError as error:
        draft, problems = read_in_parts(text, _read, error)
    if draft is None:
        raise QueryError(in_order(problems), text)
    return replace(draft, problems=tuple(problems))


def _read(text: str) -> ClauseDraft:
    """Parse the clause, or a part of it that stands in its place; a `QueryError` for the first mistake of its grammar."""
    from lark.exceptions import UnexpectedInput, VisitError

    try:
        return _checked(cast(ClauseDraft, _parser().parse(text)))
    except UnexpectedInput as error:
        raise QueryError(_explain(error, text), text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, QueryError):
            raise QueryError(error.orig_exc.problems, text) from None
        raise
    except QueryError as error:
        raise QueryError(error.problems, text) from None


def _checked(draft: ClauseDraft) -> ClauseDraft:
    values = [value for value, _ in draft.measures] + [condition for _, condition in draft.definitions]
    check_limits([draft.within, *values], tree.children)
    check_limits([draft.pattern], rows.parts_of)
    return draft


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    grammar = files("seqube.language.rows").joinpath("grammar.lark").read_text(encoding="utf-8")
    grammar = grammar.replace("(?:OF_ROWS)", f"(?:{'|'.join(sorted(OF_ROWS, reverse=True))})")  # MAX_BY before MAX
    grammar = grammar.replace("(?:VALUE_FUNCTIONS)", f"(?:{'|'.join(PLAIN_CALLS)})")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=_RowBuilder())


def _explain(error: Any, text: str) -> Problem:
    from lark.exceptions import UnexpectedCharacters

    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        if text[at] == "'":
            return Problem("this string is not closed", place(text, at), "end it with a single quote")
        word = re.match(r"\w*", text[at:])
        found = (word[0] if word else "") or text[at]
        return Problem(f"{found!r} cannot stand here", place(text, at, len(found)), _hint(found, text[:at]))
    token = error.token
    if token.type == "$END":
        end = len(text.rstrip())
        last = re.search(r"\w+$|\S?$", text[:end])
        behind = last[0] if last else ""
        where = place(text, max(0, end - len(behind)), len(behind) or 1)
        return Problem(f"something is missing behind {behind!r}", where, "is a ')' or a value missing?")
    start, found = token.start_pos or 0, str(token).split("\n", 1)[0].rstrip()
    before = re.search(r"([^\W\d]\w*)\s*$", text[:start])
    if token.type == "LPAR" and before and before[1].upper() not in _WORDS:
        known, name = (*OF_ROWS, *VALUE_FUNCTIONS), before[1]
        where = place(text, before.start(1), len(name))
        if name.upper() in known:
            return Problem(f"{name}(...) cannot stand here", where, _hint(name, text[: before.start(1)]))
        return Problem(f"there is no function {name!r}", where, did_you_mean(name.upper(), known))
    return Problem(f"{found!r} cannot stand here", place(text, start, len(found)), _hint(found, text[:start]))


_ROWS_SHOWN = (
    "write ONE ROW PER MATCH, or ALL ROWS PER MATCH, perhaps with SHOW EMPTY MATCHES, OMIT EMPTY MATCHES or WITH UNMATCHED ROWS"
)
_COLUMNS = (
    "only columns stand here; compute others before: FROM (SELECT *, lower(name) AS k FROM t) MATCH_RECOGNIZE (PARTITION BY k ...)"
)
_IN_CLAUSES = {  # what a clause takes, for whatever it does not
    "PARTITION": _COLUMNS,
    "ORDER": _COLUMNS,
    "MEASURES": "measures are values with names, and commas between them: LAST(a.price) AS low, COUNT(*) AS n",
    "ONE": _ROWS_SHOWN,
    "ALL": _ROWS_SHOWN,
    "AFTER": "write AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST a, or TO LAST a",
    "PATTERN": "a pattern is made of variables, |, ( ), ^ and $, PERMUTE(a, b), {- a -}, each with * + ? {2,3} or nothing behind",
    "WITHIN": "write WITHIN INTERVAL '10' MINUTE",
    "SUBSET": "write SUBSET s = (a, b)",
    "DEFINE": "conditions have commas between them: DEFINE a AS price > 1, b AS price < PREV(price)",
}
_OF_WORDS = {
    "SEEK": "INITIAL and SEEK are of windows; a clause in FROM looks everywhere",
    "INITIAL": "INITIAL and SEEK are of windows; a clause in FROM looks everywhere",
    "OVER": "windows stand in the SELECT around the clause",
    "FILTER": "write SUM(a.x) FILTER (WHERE a.x > 1)",
    "ESCAPE": "in LIKE, \\ takes the next character as it is",
}


def _hint(found: str, before: str) -> str:
    """One thing to do, by the word that cannot stand there, what is before it, and the clause it is in."""
    if found.upper() in _OF_WORDS:
        return _OF_WORDS[found.upper()]
    if re.search(r"\b(running|final)\s+$", before, re.IGNORECASE):
        return "RUNNING and FINAL stand before FIRST, LAST and aggregates"
    outside = re.sub(r"'[^']*'|\"[^\"]*\"", "", before)
    if found.upper() == "ORDER" and outside.count("(") > outside.count(")"):
        return "an aggregate takes rows in the order of the match"
    said = [word.upper() for word in re.findall(r"[^\W\d]\w*", outside) if word.upper() in _WORDS]
    known = (*_WORDS, *OF_ROWS, *VALUE_FUNCTIONS)
    near = did_you_mean(found.upper(), _WORDS) if found.isidentifier() and found.upper() not in known else None
    if near and near.startswith("did you mean"):
        return near
    return _IN_CLAUSES[said[-1]] if said else f"the clauses are {', '.join(_WORDS)}"


def _named(token: Token) -> Name:
    written = name_of(token)
    return Name(written if token[0] in '"`' else written.upper(), written, at_token(token))


class _RowBuilder(Builder):
    """What each rule of the clause's grammar becomes; the rules of values are those of the language."""

    casts = SQL_CASTS

    # ---- values

    def attribute(self, children: list[Token]) -> Attribute:
        variable, name = children
        return Attribute(_named(variable).text, name_of(name), cover(at_token(variable), at_token(name)))

    def bare(self, children: list[Token]) -> Attribute:
        return Attribute(None, name_of(children[0]), at_token(children[0]))

    def plus(self, children: list[Any]) -> Value:
        return as_item(children[1])

    def interval(self, children: list[Token]) -> Value:
        (token,) = children
        found = re.fullmatch(r"interval\s+'?\s*(-?(?:\d+\.?\d*|\.\d+))\s*(\w*)\s*'?(?:\s+(\w+))?", token, re.IGNORECASE)
        unit = ((found[3] or found[2]) if found else "").lower()
        if found is None or unit not in UNIT_US:
            fail(
                "this interval is not understood",
                at_token(token),
                "write INTERVAL '10' MINUTE; there are days, not months or years",
            )
        return tree.Duration(round(microseconds_of([(found[1], unit)], at_token(token))), at_token(token))

    def moment(self, children: list[Token]) -> Value:
        word, text = children
        kind, at = word.upper(), cover(at_token(word), at_token(text))
        try:
            (time if kind == "TIME" else datetime).fromisoformat(text[1:-1])
        except ValueError:
            what, example = ("time of day", "08:30:00") if kind == "TIME" else ("date or time", "2024-03-01 08:30:00")
            fail(f"{text} is not a {what}", at_token(text), f"write {kind} '{example[:10]}'")
        return tree.Call("CAST", (Literal(text[1:-1], at_token(text)), Literal(kind, at_token(word))), at)

    def binary(self, children: list[Token]) -> Value:
        (token,) = children
        try:
            return Literal(bytes.fromhex(token[2:-1]), at_token(token))
        except ValueError:
            fail("a binary value has two digits for each byte", at_token(token), "write X'0AFF'")

    def array(self, children: list[Any]) -> Value:
        word, *values = children
        return tree.Call(ARRAY, tuple(as_item(value) for value in values if value is not None), at_token(word))

    def part_of_text(self, children: list[Any]) -> Value:
        word, *given = children
        if word.upper() != "SUBSTRING":
            fail(f"{word.upper()} takes values with commas between them", at_token(word), f"write {word.upper()}(a.x, ...)")
        return self.applied([word, *given])

    def other_function(self, children: list[Any]) -> Value:
        name, *given = children
        arguments = tuple(as_item(value) for value in given if value is not None)
        at = cover(at_token(name), arguments[-1].at) if arguments else at_token(name)
        return in_known_functions(name.upper(), arguments, at)

    def cast(self, children: list[Any]) -> Value:
        """As in the language, by more names; of VARCHAR(3) so many characters are left."""
        word, value, name, *digits = children
        length = next((size for size in digits if size is not None), None)
        name = name.update(value=_ALSO_CAST.get(name.upper(), str(name)))
        if length is None or name.upper() not in ("VARCHAR", "STRING", "TEXT"):
            return super().cast([word, value, name, *digits])
        text = super().cast([word, value, name, None, None])
        return tree.Call("SUBSTRING", (text, Literal(1), Literal(min(whole_of(length), MAX_INT64))), text.at)

    def among(self, children: list[Any]) -> Predicate:
        operand, negated, *listed = children
        values = tuple(map(as_item, listed))
        if all(isinstance(value, Literal) for value in values):
            plain = cast(tuple[Literal, ...], values)
            return tree.Among(as_item(operand), plain, negated is not None, operand.at)
        equals = tuple(tree.Comparison("=", as_item(operand), value, value.at) for value in values)
        found = equals[0] if len(equals) == 1 else tree.AnyOf(equals, operand.at)
        return found if negated is None else tree.Inverse(found, operand.at)

    def queried(self, children: list[Token]) -> Value:
        return tree.Call(QUERIED, (_number_of(children[0]),), at_token(children[0]))

    def among_queried(self, children: list[Any]) -> Predicate:
        operand, negated, query = children
        asked = tree.Call(AMONG_QUERIED, (as_item(operand), _number_of(query)), at_token(query))
        found = tree.IsTrue(asked, operand.at)
        return found if negated is None else tree.Inverse(found, operand.at)

    def exists(self, children: list[Token]) -> Predicate:
        at = cover(at_token(children[0]), at_token(children[1]))
        return tree.IsTrue(tree.Call(EXISTS_QUERIED, (_number_of(children[1]),), at), at)

    def is_truth(self, children: list[Any]) -> Predicate:
        operand, negated, truth = children
        wanted = tree.Call("IS DISTINCT FROM", (as_item(operand), Literal(truth.upper() == "TRUE")), operand.at)
        found = tree.IsTrue(wanted, operand.at)
        return found if negated is not None else tree.Inverse(found, operand.at)

    def _of_rows(self, mode: Token | None, function: Token, arguments: tuple[Value, ...], where: Any = None) -> Value:
        last = arguments[-1].at if arguments else None
        if where is not None:
            arguments = _filtered(function, arguments, as_predicate(where))
        at = cover(at_token(mode or function), last or at_token(function))
        call = tree.Call(function.upper(), arguments, at)
        return call if mode is None else tree.Call(mode.upper(), (call,), at)

    def called(self, children: list[Token]) -> Value:
        mode, function, star, where = children
        return self._of_rows(mode, function, (Attribute(None, ALL_ROWS, at_token(star)),), where)

    def called_of_rows(self, children: list[Token]) -> Value:
        mode, function, variable, star, where = children
        at = cover(at_token(variable), at_token(star))
        return self._of_rows(mode, function, (Attribute(_named(variable).text, ALL_ROWS, at),), where)

    def called_of(self, children: list[Any]) -> Value:
        mode, function, which, *given, where = children
        arguments = tuple(as_item(each) for each in given if each is not None)
        if which is not None and function.upper() not in FOLDS:
            fail(f"{which.upper()} stands in aggregates", at_token(which), "write COUNT(DISTINCT a.x)")
        if where is not None:
            arguments = _filtered(function, arguments, as_predicate(where))
        if which is not None and which.type == "DISTINCT":
            arguments = (tree.Call("DISTINCT", arguments, at_token(which)),)
        return self._of_rows(mode, function, arguments)

    # ---- patterns

    def variable(self, children: list[Token]) -> rows.RowPattern:
        name = _named(children[0])
        return rows.Variable(name.text, name.at)

    def anchor(self, children: list[Token]) -> rows.RowPattern:
        return rows.Anchor(cast(Any, str(children[0])))

    def group(self, children: list[Any]) -> rows.RowPattern:
        return rows.Concatenation() if children[0] is None else children[0]

    def excluded(self, children: list[Any]) -> rows.RowPattern:
        return rows.Exclusion(children[0], _first_place(children[0]))

    def permutation(self, children: list[Any]) -> rows.RowPattern:
        word, *parts = children
        return rows.Permutation(tuple(parts), at_token(word))

    def repeated(self, children: list[Any]) -> rows.RowPattern:
        part, token = children
        return part if token is None else rows.Repetition(part, _quantifier(token))

    def concatenation(self, children: list[Any]) -> rows.RowPattern:
        return children[0] if len(children) == 1 else rows.Concatenation(tuple(children))

    def alternation(self, children: list[Any]) -> rows.RowPattern:
        return rows.Alternation(tuple(children))

    # ---- clauses: (field of ClauseDraft, place, content)

    def column(self, children: list[Token]) -> Name:
        return _named(children[-1])

    def ordered(self, children: list[Any]) -> tuple[Name, bool, bool]:
        column, way, nulls = children
        return column, way is not None and way.type == "DESC", nulls is not None and nulls.type == "FIRST"

    def measure(self, children: list[Any]) -> tuple[Value, Name | None]:
        return as_item(children[0]), None if children[1] is None else _named(children[1])

    def subset(self, children: list[Token]) -> tuple[Name, tuple[Name, ...]]:
        name, *members = children
        return _named(name), tuple(map(_named, members))

    def definition(self, children: list[Any]) -> Any:
        return _named(children[0]), as_predicate(children[1])

    def partition_by(self, children: list[Any]) -> tuple[str, Span, object]:
        return "partition_by", at_token(children[0]), tuple(children[1:])

    def order_by(self, children: list[Any]) -> tuple[str, Span, object]:
        return "order_by", at_token(children[0]), tuple(children[1:])

    def measures(self, children: list[Any]) -> tuple[str, Span, object]:
        return "measures", at_token(children[0]), tuple(children[1:])

    def one_row(self, children: list[Any]) -> tuple[str, Span, object]:
        return "shown", at_token(children[0]), "one"

    def all_rows(self, children: list[Any]) -> tuple[str, Span, object]:
        word, *options = children
        option = next((each.type for each in options if each is not None), "SHOW")
        return "shown", at_token(word), {"SHOW": "show", "OMIT": "omit", "WITH": "unmatched"}[option]

    def skip(self, children: list[Any]) -> tuple[str, Span, object]:
        to = "PAST LAST" if children[1].type == "PAST" else "NEXT"
        return "skip", at_token(children[0]), (to, None, at_token(children[0]))

    def skip_to(self, children: list[Any]) -> tuple[str, Span, object]:
        word, end, name = children
        return "skip", at_token(word), ("LAST" if end is None else end.type, _named(name), at_token(name))

    def the_pattern(self, children: list[Any]) -> tuple[str, Span, object]:
        return "pattern", at_token(children[0]), rows.Concatenation() if children[1] is None else children[1]

    def within(self, children: list[Any]) -> tuple[str, Span, object]:
        return "within", at_token(children[0]), as_item(children[1])

    def subsets(self, children: list[Any]) -> tuple[str, Span, object]:
        return "subsets", at_token(children[0]), tuple(children[1:])

    def definitions(self, children: list[Any]) -> tuple[str, Span, object]:
        return "definitions", at_token(children[0]), tuple(children[1:])

    def start(self, children: list[Any]) -> Any:
        contents: dict[str, Any] = {}
        places: dict[str, Span] = {}
        problems = []
        for name, at, content in children:
            if name in contents:
                problems.append(Problem(f"this is given twice (first in line {places[name].line})", at, "keep one of them"))
            else:
                contents[name], places[name] = content, at
        return ClauseDraft(**contents, places=places, problems=tuple(problems))


def _filtered(function: Token, arguments: tuple[Value, ...], where: Predicate) -> tuple[Value, ...]:
    """An aggregate of rows that meet a condition: the others have no value, and what is null is left out."""
    name, at = function.upper(), at_token(function)
    if name not in FOLDS or name == "ARRAY_AGG" or not arguments:
        hint = "list a value that is null in other rows: ARRAY_AGG(CASE WHEN a.x > 1 THEN a.x END)"
        fail(f"{name} takes no FILTER", at, hint if name == "ARRAY_AGG" else "FILTER stands behind aggregates")
    *before, last = arguments if name in ("MIN_BY", "MAX_BY") else arguments[:1]
    if isinstance(last, Attribute) and last.name == ALL_ROWS:
        named = {node.variable for node in tree.walk(where) if isinstance(node, Attribute)}
        if named - {last.variable} or (last.variable is not None and not named):
            rows_of = "any variable" if last.variable is None else last.variable
            fail(f"the FILTER of a count of rows of {rows_of} looks at others", at, "name columns of the rows that are counted")
        last = Literal(1, last.at)
    kept = tree.Call("CASE", (as_item(where), last, Literal(None)), last.at)
    return (*before, kept, *arguments[len(before) + 1 :])


def _number_of(query: Token) -> Literal:
    """Which of the statement's sub-queries it is."""
    return Literal(int(query[2:-1]), at_token(query))


def _first_place(pattern: rows.RowPattern) -> Span | None:
    return next((node.at for node in rows.walk_pattern(pattern) if isinstance(node, rows.Variable)), None)


def _quantifier(token: Token) -> tree.Quantifier:
    """As in STRICT, where `{0}` is refused; here it is a part that is not there."""
    text, at = "".join(token.split()), at_token(token)
    reluctant = len(text) > 1 and text.endswith("?")
    text = text[:-1] if reluctant else text
    plain: dict[str, tuple[int, int | None]] = {"+": (1, None), "*": (0, None), "?": (0, 1)}
    if text in plain:
        return tree.Quantifier(*plain[text], reluctant, at)
    low, comma, high = text[1:-1].partition(",")
    least = whole_of(low)
    most = (whole_of(high) if high else None) if comma else least
    if most is not None and most < least:
        fail(f"at least {least} and at most {most} rows", at, f"write the smaller number first: {{{most},{least}}}")
    if most == 0:
        fail("a part that takes no row at all", at, "leave it out")
    if max(least, most or 0) > MAX_REPEATS:
        fail(
            f"a part is repeated at most {MAX_REPEATS:,} times, or any number of times", at, f"write {{{min(least, MAX_REPEATS)},}}"
        )
    return tree.Quantifier(least, most, reluctant, at)
