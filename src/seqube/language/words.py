"""The words of the language, once: grammar, syntax errors, the writer's quotes, and the page's colours and completion read them.

The grammar spells its keywords itself, since each stands in a place of its own; a test holds it against this list.
"""

from __future__ import annotations

from seqube.language.functions import AGGREGATES, FUNCTIONS, OF_EVENTS, VALUE_FUNCTIONS

# What a clause begins with.
CLAUSE_WORDS = (
    "WITHIN", "WHERE", "DEFINE", "PARTITION", "ORDER", "SKIP", "KEEP", "GROUP", "GROUPBY", "AGG", "HAVING", "EMIT", "RETURN",
    "LIMIT",
)  # fmt: skip
OPERATORS = ("SEQ", "NEXT", "STRICT", "AND", "OR")
CALLED = (*OPERATORS, *FUNCTIONS)  # a parenthesis follows
WITHIN_CLAUSES = (
    "BY", "ON", "TRIGGER", "EVERY", "PER", "TOTAL", "AS", "PAST", "TO", "NEXT", "FIRST", "LAST", "PARTIAL", "DISTINCT",
)  # fmt: skip
OF_VALUES = ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE")
OF_FUNCTIONS = ("CASE", "WHEN", "THEN", "ELSE", "END", "FROM", "LIKE", "ILIKE", "RLIKE", "CAST", "EXTRACT")
OF_LEVELS = ("AT", "LEAF")  # behind a type in GROUP BY, where no name can stand
COUNTED = ("EVENT", "EVENTS")  # a unit of windows, after a number

KEYWORDS = tuple(dict.fromkeys(("PATTERN", *CLAUSE_WORDS, *WITHIN_CLAUSES, *CALLED, *OF_VALUES)))  # a name like these takes quotes
COLOURED = tuple(
    dict.fromkeys((*KEYWORDS, *OF_FUNCTIONS, *OF_LEVELS, *OF_EVENTS, *(name for name in VALUE_FUNCTIONS if " " not in name)))
)
# How functions are written and what they give: what the editor shows beside a name.
SIGNATURES = {
    **{name: (row.call, row.meaning) for name, row in VALUE_FUNCTIONS.items() if " " not in name},
    **{name: (row.call, "over all matches") for name, row in AGGREGATES.items()},
    **{name: (f"{name}(v)", f"the {name.lower()} of the event that v stands for") for name in OF_EVENTS},
}
