"""The words of the language, once: grammar, syntax errors, the writer's quotes, and the page's colours and completion read them.

The grammar spells its keywords itself, since each stands in a place of its own; a test holds it against this list.
"""

from __future__ import annotations

from seqube.language.functions import AGGREGATES, FUNCTIONS

CLAUSE_WORDS = ("WITHIN", "WHERE", "PARTITION", "GROUP", "GROUPBY", "AGG", "HAVING", "EMIT", "RETURN")  # what a clause begins with
OPERATORS = ("SEQ", "AND", "OR")
CALLED = (*OPERATORS, *AGGREGATES)  # a parenthesis follows
WITHIN_CLAUSES = ("BY", "ON", "TRIGGER", "EVERY", "TOTAL", "AS")
OF_VALUES = ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE")
OF_FUNCTIONS = ("CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "FROM", "LIKE", "ILIKE", "RLIKE", "CAST", "EXTRACT")
COUNTED = ("EVENT", "EVENTS")  # a unit of windows, after a number

KEYWORDS = tuple(dict.fromkeys(("PATTERN", *CLAUSE_WORDS, *WITHIN_CLAUSES, *CALLED, *OF_VALUES)))  # a name like these takes quotes
COLOURED = tuple(dict.fromkeys((*KEYWORDS, *OF_FUNCTIONS, *(name for name in FUNCTIONS if " " not in name))))
