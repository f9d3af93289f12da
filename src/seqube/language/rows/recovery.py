"""Mistakes in the grammar of a clause, all of them: where the whole cannot be read, its parts are read one by one.

A part is a clause (PATTERN ...), or one item of a clause that lists several (a measure, a condition). Each is read alone, at its
place in the text, so what is wrong with one part does not hide what is wrong with the others. What can be read is a draft that may
be bound, for the mistakes in names; unless the pattern or a subset is missing from it, which everything else names.

Cost: a parse of each part in its place, up to a bound; of a very long text only the first parts are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from seqube.errors import Problem, QueryError

if TYPE_CHECKING:
    from seqube.language.rows.parser import ClauseDraft

# A clause starts with these words; a column may have the name of the first alone.
_STARTS = re.compile(
    r"\b(?:(?P<listed>partition\s+by|order\s+by|measures|subset|define)|one\s+row|all\s+rows|after\s+match|pattern(?=\s*\()|within)\b",
    re.IGNORECASE,
)
_SKIPPED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|(?<=\bas)\s+\w+|\.\s*\w+""",
    re.DOTALL | re.IGNORECASE,
)
_NEEDED = ("PATTERN", "SUBSET")
_MOST_AGAIN = 2_000_000  # characters: each part is read in a text as long as the whole


def read_in_parts(text: str, read: Callable[[str], ClauseDraft], whole: QueryError) -> tuple[ClauseDraft | None, list[Problem]]:
    """What of a clause can be read (None: too little), and what is wrong with the rest; `whole` is what stopped the parser."""
    drafts: list[ClauseDraft] = []
    problems: list[Problem] = []
    can_bind = True
    for number, (word, part) in enumerate(_parts(text)):
        if number * len(text) > _MOST_AGAIN:
            can_bind = False
            break
        try:
            drafts.append(read(part))
        except QueryError as error:
            problems += error.problems
            can_bind &= word not in _NEEDED
    if not problems:  # the parts stand in each other's way
        return None, list(whole.problems)
    draft = _joined(drafts) if can_bind and drafts else None
    return (draft if draft is not None and draft.pattern is not None else None), problems


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The first word of each part, and the text with everything else blanked out."""
    plain = _SKIPPED.sub(lambda found: "x" * len(found[0]) if found[0][0] not in "-/" else " " * len(found[0]), text)
    depth = _depths(plain)
    starts = [found for found in _STARTS.finditer(plain) if depth[found.start()] == 0]
    ends = [*(found.start() for found in starts), len(text)][1:]
    first = starts[0].start() if starts else len(text)
    if text[:first].strip():
        yield "", _only(text, (0, first))
    for found, end in zip(starts, ends, strict=True):
        word = found[0].split()[0].upper()
        begin = found.end()
        if not found["listed"]:
            yield word, _only(text, (found.start(), end))
            continue
        cuts = [at for at in range(begin, end) if plain[at] == "," and depth[at] == 0]
        for item_begin, item_end in zip((begin, *(cut + 1 for cut in cuts)), (*cuts, end), strict=True):
            yield word, _only(text, (found.start(), begin), (item_begin, item_end))


def _depths(plain: str) -> list[int]:
    """How many brackets are open at each character."""
    depths, depth = [], 0
    for character in plain:
        depth -= character in ")]"
        depths.append(max(0, depth))
        depth += character in "(["
    return depths


def _only(text: str, *kept: tuple[int, int]) -> str:
    """The text with everything outside these stretches blanked out."""
    blank = re.sub(r"[^\n]", " ", text)
    written, at = "", 0
    for begin, end in kept:
        written += blank[at:begin] + text[begin:end]
        at = end
    return written + blank[at:]


def _joined(drafts: list[ClauseDraft]) -> ClauseDraft:
    """Parts as one draft: items of a list behind each other, of anything else the first."""
    joined = drafts[0]
    for draft in drafts[1:]:
        joined = replace(
            joined,
            partition_by=joined.partition_by + draft.partition_by,
            order_by=joined.order_by + draft.order_by,
            measures=joined.measures + draft.measures,
            subsets=joined.subsets + draft.subsets,
            definitions=joined.definitions + draft.definitions,
            shown=joined.shown if "shown" in joined.places else draft.shown,
            skip=joined.skip if "skip" in joined.places else draft.skip,
            pattern=joined.pattern if joined.pattern is not None else draft.pattern,
            within=joined.within if joined.within is not None else draft.within,
            places={**draft.places, **joined.places},
        )
    return joined
