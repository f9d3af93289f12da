"""Syntax errors in the user's words.

The parser knows which terminals it could have taken where it stopped; here these become a short phrase ("expected ',' or ')'
after 'a'"), and the mistakes people really make (a double-quoted string, a misspelt clause, an unknown unit, a forgotten quote)
get a message or a hint of their own.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqube.errors import Problem, Span, nearest
from seqube.language.functions import PARTS, VALUE_FUNCTIONS
from seqube.language.tokens import UNIT_US, place
from seqube.language.words import CALLED, CLAUSE_WORDS

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

_START = "a query starts with its pattern: PATTERN SEQ(A a, B b) WITHIN 10 min"
_SPECIAL = 'a name with special characters takes double quotes: "ER-Triage"'
_ORDER = 'ORDER BY breaks ties of time, ascending; put the rows of a result in order afterwards: result.table.sort_by("price")'
_STRAIGHT = "strings take straight single quotes: 'A'"
_BETWEEN_PARTS = "parts are separated by commas: SEQ(A a, B b)"
_UNITS = "us, ms, s, min, hours, days and weeks, and in WITHIN also EVENTS"
_COMMENT = re.compile(r"--[^\n]*")
_PIECES = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|\w+|[()]""")
# The clauses that may be left out while others are still looked at, each with those that rest on it.
_LEAVES_OUT = {
    **dict.fromkeys(("WHERE", "ORDER", "SKIP", "KEEP", "GROUP", "GROUPBY", "HAVING", "EMIT", "RETURN", "LIMIT"), ()),
    "AGG": ("HAVING", "EMIT", "GROUP", "GROUPBY"),
}

# What stands for a terminal in "expected ... or ...", in this order.
_AFTER_VALUE = {"_THEN": "THEN", "COMMA": "','", "RPAR": "')'", "RSQB": "']'", "_AS": "AS", "WITHIN": "a clause such as WITHIN"}
_SPELLED = {
    **_AFTER_VALUE,
    "LPAR": "'('",
    "DOT": "'.'",
    "_BY": "BY",
    "_IN": "IN",
    "_BETWEEN": "BETWEEN",
    "_AND": "AND",
    "_ON": "ON TRIGGER",
    "TRIGGER": "TRIGGER",
    "EVERY": "EVERY",
    "PER": "PER",
    "TOTAL": "TOTAL",
    "NULL": "NULL",
    "LEAF": "the number of a level, or LEAF,",
}
# What other languages call what is here.
_OTHER_NAMES = {
    "AVERAGE": "AVG",
    "MEAN": "AVG",
    "STD": "STDDEV",
    "STDEV": "STDDEV",
    "VAR": "VARIANCE",
    "LEN": "LENGTH",
    "SUBSTR": "SUBSTRING",
    "IFNULL": "COALESCE",
    "NVL": "COALESCE",
    "IF": "CASE",
    "LCASE": "LOWER",
    "UCASE": "UPPER",
    "POW": "POWER",
    "LOG": "LN",
    "CEILING": "CEIL",
    "REGEXP": "RLIKE",
    "REGEXP_LIKE": "RLIKE",
}
_ALIKE = 0.75  # words that differ in more are no misspelling of each other: LIMIT is not EMIT
_CHARACTERS = {
    "'": ("this string is not closed", "end it with a single quote; a quote inside a string is written twice: 'it''s'"),
    '"': ("this name is not closed", "end it with a double quote; strings take single quotes: 'A'"),
    "`": ("this name is not closed", "end it with a backtick"),
    "&": ("'&' is not an operator", "write AND"),
    "|": ("'|' is not an operator", "write OR"),
    "~": ("'~' is not an operator", "write RLIKE"),
    "#": ("unexpected character '#'", "comments start with --"),
    **{quote: (f"{quote} is a typographic quote", _STRAIGHT) for quote in "‘’“”"},
}


def explain(error: UnexpectedInput, text: str, parser: Lark) -> Problem:
    """What is wrong where the parser stopped."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if not _COMMENT.sub("", text).strip("\ufeff \t\r\n;"):
        return Problem("the query is empty", Span(1, 1), _START)
    if isinstance(error, UnexpectedCharacters):
        position = error.pos_in_stream or 0
        char = text[position]
        wrong, advice = _CHARACTERS.get(char, (f"unexpected character {char!r}", _SPECIAL))
        if char == "|" and _in_pattern(text[:position]):
            advice = _before_parts("OR")
        return Problem(wrong, place(text, position), advice)
    assert isinstance(error, UnexpectedToken)
    token = error.token
    accepts = _accepted(parser, text, len(text) if token.type == "$END" else token.start_pos or 0)
    if token.type == "$END":
        end = token.end_pos or 0  # the end borrows the place of the last token
        message = f"the query ends too early: expected {_phrase(accepts)} after '{_previous(text, end)}'"
        return Problem(message, place(text, end), "is a ')' missing?" if "RPAR" in accepts else None)
    start = token.start_pos or 0
    found = str(token)
    stop = _Stop(token.type, found, _previous(text, start), accepts, text[:start], text[start + len(found) :])
    if wrong_word := _misplaced(stop):
        message, hint = wrong_word
        word = stop.before.removesuffix("...")
        return Problem(message, place(text, stop.text_before.rindex(word), len(word)), hint)
    message, hint = _recognise(stop) or (
        f"expected {_phrase(accepts)} after '{stop.before}', found '{_shorten(found)}'"
        if stop.before
        else f"unexpected '{_shorten(found)}'",
        _hint(stop),
    )
    return Problem(message, place(text, start, len(found.split("\n", 1)[0])), hint)


def without_clause(text: str, at: Span | None) -> str | None:
    """The text with the clause at this place blanked out, and those that mean nothing without it.

    None where that is the pattern or a clause that every query needs, where the query is not written to its end, or where
    parentheses leave open what belongs to what.
    """
    if at is None:
        return None
    offset = sum(len(line) + 1 for line in text.split("\n")[: at.line - 1]) + at.column - 1
    starts, depth = [], 0
    for piece in _PIECES.finditer(text):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0 and piece[0].upper() in CLAUSE_WORDS:
            starts.append(piece.start())
    words = [_PIECES.match(text, start)[0].upper() for start in starts]  # type: ignore[index]
    # What stands right after the word of a clause is missing at the end of the one before.
    before = [
        word for word, start in zip(words, starts, strict=True) if start < offset and text[start + len(word) : offset].strip()
    ]
    if depth or "WITHIN" not in words or not before or before[-1] not in _LEAVES_OUT:
        return None
    left_out = {before[-1], *_LEAVES_OUT[before[-1]]}
    for word, start, end in zip(words, starts, [*starts[1:], len(text)], strict=True):
        if word in left_out:
            text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _accepted(parser: Lark, text: str, position: int) -> set[str]:
    """What can follow the text before `position`.

    The error itself knows less: the parser has then already closed what it could on sight of the wrong token.
    """
    from lark.exceptions import UnexpectedInput

    state = parser.parse_interactive(text)
    with contextlib.suppress(UnexpectedInput):
        for token in state.iter_parse():
            if (token.start_pos or 0) >= position:
                break
    return set(state.accepts())  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where the parser stopped: the token it found (and its terminal), the word before it, what fits there, the text around."""

    kind: str
    found: str
    before: str
    accepts: set[str]
    text_before: str
    text_after: str

    @property
    def is_word(self) -> bool:
        return re.fullmatch(r"[^\W\d]\w*", self.found) is not None


def _misplaced(stop: _Stop) -> tuple[str, str | None] | None:
    """Mistakes that lie in the word before the place where the parser stopped."""
    if stop.before.upper() in CLAUSE_WORDS and "WITHIN" in stop.accepts and not _stands_first(stop):
        return f"a value is missing before {stop.before.upper()}", None
    if stop.kind == "LPAR" and re.fullmatch(r"[^\W\d]\w*", stop.before):
        called = stop.before.upper()
        near = _OTHER_NAMES.get(called) or nearest(called, (*CALLED, *VALUE_FUNCTIONS), _ALIKE)
        of = re.match(r"\s*([\w.]+)\s*\)", stop.text_after)
        hint = f"EXTRACT({called} FROM {of[1] if of else '...'})" if called in PARTS else f"did you mean {near}?" if near else None
        kind = "operator or function" if _in_pattern(stop.text_before) else "function"
        return f"there is no {kind} '{stop.before}'", hint
    return None


def _stands_first(stop: _Stop) -> bool:
    """Whether a clause stands where the pattern should."""
    words = re.findall(r"\w+", _COMMENT.sub("", stop.text_before[:1000]))
    return (words[0] if words else stop.found).upper() in CLAUSE_WORDS and len(words) <= 3


def _in_pattern(text_before: str) -> bool:
    """Whether a place belongs to the pattern: no clause has begun before it. A type in parentheses may have a clause's name."""
    depth = 0
    for piece in _PIECES.finditer(text_before):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0 and piece[0].upper() in CLAUSE_WORDS:
            return False
    return True


def _before_parts(word: str) -> str:
    return f"in a pattern {word} stands before its parts: {word}(A a, B b)"


def _recognise(stop: _Stop) -> tuple[str, str | None] | None:
    """Mistakes that deserve a message of their own."""
    word = stop.found.upper()
    if _stands_first(stop):
        words = re.findall(r"\w+", _COMMENT.sub("", stop.text_before[:1000]))
        return f"{(words[0] if words else word).upper()} stands before the pattern", _START
    if stop.kind == "DOT" and re.search(r"\border\s+by\s+[\w\s,]*$", stop.text_before, re.IGNORECASE):
        return "ORDER BY takes columns of the events, and orders those of one time", _ORDER
    if stop.kind == "STAR" and stop.before == "/":
        return "'/*' does not start a comment", "comments start with --"
    if "STRING" in stop.accepts and stop.found.startswith('"'):
        return f"{stop.found} is a name, not a string", f"strings take single quotes: '{stop.found[1:-1]}'"
    if "STRING" in stop.accepts and stop.is_word and "VARIABLE" not in stop.accepts:
        return f"IN takes plain values, not '{stop.found}'", f"strings take single quotes: '{stop.found}'; join comparisons with OR"
    if "STRING" in stop.accepts and stop.is_word and "NAME" not in stop.accepts:
        return f"{stop.found!r} has no variable", f"write whose it is: a.{stop.found}; a string takes single quotes: '{stop.found}'"
    if (
        stop.is_word
        and stop.before.isdecimal()
        and not nearest(word, CLAUSE_WORDS, _ALIKE)
        and not stop.accepts & {word, f"_{word}"}
    ):
        near = nearest(stop.found, UNIT_US)
        if near or "COMMA" not in stop.accepts:
            return f"{stop.found!r} is not a unit of time", f"did you mean {near!r}?" if near else f"there are {_UNITS}"
    return None


def _hint(stop: _Stop) -> str | None:
    if _in_pattern(stop.text_before):
        return _hint_in_pattern(stop) or _hint_anywhere(stop)
    if stop.before == "=" and stop.found in ("<", ">"):
        return f"write {stop.found}="
    if stop.kind == "RPAR" and re.search(r"\bcount\s*\(\s*$", stop.text_before, re.IGNORECASE):
        return "COUNT(*) counts the matches"
    if stop.before.upper() == "IN" and stop.kind in ("STRING", "NUMBER"):
        return f"values stand in parentheses: IN ({stop.found})"
    if stop.found.upper() == "INTERVAL" and (given := re.match(r"\s*'(\d+)'\s*([a-z]+)", stop.text_after, re.IGNORECASE)):
        return f"a length of time is written {given[1]} {given[2].lower()}"
    if stop.before.upper() == "EMIT" and stop.kind in ("DURATION", "NUMBER"):
        return f"EMIT PER {stop.found} counts each match once, EMIT EVERY {stop.found} looks at the window that ends there"
    return _hint_anywhere(stop)


def _hint_in_pattern(stop: _Stop) -> str | None:
    if stop.kind == "SEMICOLON" or (stop.kind == "MINUS" and stop.text_after.startswith(">")):
        return _BETWEEN_PARTS
    if re.match(r"\s*select\b", stop.text_before, re.IGNORECASE):
        return _START
    if stop.kind == "COMMA" and re.match(r"\s*(pattern\s*)?\(", stop.text_before, re.IGNORECASE):
        return "what comes one after the other is written SEQ(A a, B b)"
    if stop.before.upper() == "AS":
        return "the variable stands right after the type, without AS: A a"
    if stop.found.upper() in ("OR", "AND") and stop.text_before.count("(") > stop.text_before.count(")"):
        return _before_parts(stop.found.upper())
    if re.match(r"[{+*?]", stop.found) and re.search(r"\w\s+\w+\s*$", stop.text_before):
        return f"a quantifier stands right after the type: A{stop.found} a"
    return None


def _hint_anywhere(stop: _Stop) -> str | None:
    accepts = stop.accepts
    if "RPAR" in accepts and stop.found.upper() in CLAUSE_WORDS:
        return "is a ')' missing before it?"
    if stop.kind == "DOT" and (inner := re.search(r"(\w+)\.(\w+)\s*$", stop.text_before)) and not _in_pattern(stop.text_before):
        return (
            f'a name with a dot in it takes double quotes: {inner[1]}."{inner[2]}..."; what is in a struct is made a column first'
        )
    if stop.kind == "DOT":
        return 'a name with a dot in it takes double quotes: "com.acme.Order"'
    if stop.kind == "PARAMETER":
        return "a parameter is a value in a condition or a column; lengths of time and numbers of rows are written out"
    if stop.kind == "SEMICOLON" or stop.before == ";":
        return "one query at a time; a file holds several, each headed by a line -- name: hygiene"
    if stop.kind == "MINUS" and stop.text_before[-1:].isalnum():
        return _SPECIAL
    if stop.kind in ("DURATION", "EVENTS", "NUMBER") and "WITHIN" in accepts:
        parts = re.fullmatch(r"\d+[^\W\d]+", stop.before)
        return "every part of a duration takes a unit: 1h30m" if parts else f"a window is written WITHIN {stop.found}"
    if "WITHIN" in accepts and stop.is_word:
        if stop.found.upper() in ("ASC", "DESC"):
            return _ORDER
        if stop.text_after.startswith(".") and "COMMA" in accepts:
            return "is a comma missing before it?"
        near = nearest(stop.found.upper(), CLAUSE_WORDS, _ALIKE) if len(stop.found) > 2 else None
        return f"did you mean {near}?" if near else f"a column is named with AS {stop.found}" if "_AS" in accepts else None
    if "WITHIN" in accepts and stop.kind == "COMMA":
        return "join predicates with AND"
    if "COMMA" in accepts and "NAME" not in accepts and stop.kind in ("NAME", "VARIABLE", "OPERATOR", "BANG", "NOT"):
        return _name_in_quotes(stop) or "is a comma missing before it?"
    if stop.is_word and (accepts == {"NAME"} or "OPERATOR" in accepts):
        return f'a name that is a keyword takes double quotes: "{stop.found}"'
    return None


def _name_in_quotes(stop: _Stop) -> str | None:
    """How a type is written that is no plain name: a number, a string, or several words that begin with capitals."""
    if found := re.search(r"[(,]\s*(\d+)\s*$", stop.text_before):
        return f'a name that begins with a digit takes double quotes: "{found[1]}"'
    if found := re.search(r"[(,]\s*'([^']*)'\s*$", stop.text_before):
        return f'a name takes double quotes, single ones are for strings: "{found[1]}"'
    if found := re.search(r"([A-Z]\w*(?:\s+[A-Z]\w+)+)\s*$", f"{stop.text_before.rstrip()} {stop.found}"):
        return f'a name of several words takes double quotes: "{found[1]}"'
    return None


def _phrase(accepts: set[str]) -> str:
    """A few words for what could have followed."""
    alone = {"WHERE": "WHERE and a condition", "NUMBER": "a number of rows"}
    if len(accepts) == 1 and (known := alone.get(*accepts)):
        return known
    words = []
    spelled = _SPELLED
    if "STRING" in accepts:
        words.append("an event type or a predicate" if "OPERATOR" in accepts else "a value")
        spelled = {}
    elif "OPERATOR" in accepts:
        words.append("an event type, SEQ, AND")
        spelled = {"OPERATOR": "OR"}
    elif "NAME" in accepts:
        words.append("a variable" if accepts & {"COMMA", "WITHIN"} else "a name")
    elif "EVENTS" in accepts:
        words.append("a length of time")
        spelled = {}
    elif "PLUS" in accepts:
        words.append("an operator" if "COMPARE" in accepts or "_AND" not in accepts else "AND")
        spelled = _AFTER_VALUE
    words += [text for terminal, text in spelled.items() if terminal in accepts]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "the end of the query"


def _previous(text: str, position: int) -> str:
    """The word or sign before a place; empty at the start. Comments do not count."""
    found = re.search(r"(\w+|\S)\s*$", _COMMENT.sub("", text[max(0, position - 1000) : position]))
    return _shorten(found[1]) if found else ""


def _shorten(word: str) -> str:
    return word if len(word) <= 40 else word[:40] + "..."
