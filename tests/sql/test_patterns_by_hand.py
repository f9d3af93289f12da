"""Row patterns over letters, each answer worked out by hand.

A row is a word of letters: what it may be mapped to ("AB" can be A or B). A match is written as the row it starts with and the
variables of its rows: "2:AAB". Rows that are left out of the output stand in small letters.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.rows.clause import match_rows
from seqube.language.rows.binder import bind_clause
from seqube.plan.rows import plan_rows


def found(pattern: str, rows: str, skip: str = "PAST LAST ROW", more: str = "") -> str:
    words = rows.split()
    table = pa.table({"n": pa.array(range(len(words)), pa.int64()), "c": pa.array(words, pa.string())})
    letters = [letter for letter in "ABCDE" if letter in pattern.upper().replace("PERMUTE", "")]
    define = "DEFINE " + ", ".join(f"{letter} AS c LIKE '%{letter}%'" for letter in letters) if letters else ""
    text = (
        f"ORDER BY n MEASURES MATCH_NUMBER() AS m, FINAL ARRAY_AGG(CLASSIFIER()) AS all_of, FIRST(n) AS f "
        f"ALL ROWS PER MATCH AFTER MATCH SKIP {skip} PATTERN ({pattern}) {more} {define}"
    )
    result = match_rows(plan_rows(bind_clause(text, {"n": "number", "c": "string"})), table)
    shown: dict[int, tuple[int, list[str], set[int]]] = {}
    for row in result.to_pylist():
        start = row["f"] if row["f"] is not None else row["n"]
        match = shown.setdefault(row["m"], (start, row["all_of"] or [], set()))
        match[2].add(row["n"])
    assert list(shown) == sorted(shown)
    return " ".join(
        f"{start}:" + "".join(name if start + place in seen else name.lower() for place, name in enumerate(names))
        for start, names, seen in shown.values()
    )


CASES = [
    # concatenation
    ("A", "A A B A", "0:A 1:A 3:A"),
    ("A B", "A B A A B", "0:AB 3:AB"),
    ("A B C", "A B C A B B C", "0:ABC"),
    ("A A", "A A A", "0:AA"),
    ("A A", "A A A A", "0:AA 2:AA"),
    ("A", "B B", ""),
    ("A B", "A", ""),
    ("A B A", "A B A B A", "0:ABA"),
    # greedy quantifiers
    ("A*", "A A B", "0:AA 2:"),
    ("A*", "B", "0:"),
    ("A+", "A A B A", "0:AA 3:A"),
    ("A+ B", "A A B A", "0:AAB"),
    ("A+ B+", "A B B A B", "0:ABB 3:AB"),
    ("A* B", "B A B A", "0:B 1:AB"),
    ("A?", "A B", "0:A 1:"),
    ("A? B", "A B B", "0:AB 2:B"),
    ("A? A", "A A A", "0:AA 2:A"),
    ("A{2}", "A A A A A", "0:AA 2:AA"),
    ("A{2,}", "A B A A A", "2:AAA"),
    ("A{1,2}", "A A A", "0:AA 2:A"),
    ("A{,2}", "A A A B", "0:AA 2:A 3:"),
    ("A{0,1} B", "B A B", "0:B 1:AB"),
    ("A{2,3} B", "A A A A B", "1:AAAB"),
    ("A{3} B", "A A B A A A B", "3:AAAB"),
    ("A{1}", "A A", "0:A 1:A"),
    # reluctant quantifiers
    ("A*?", "A A", "0: 1:"),
    ("A*? B", "A A B", "0:AAB"),
    ("A+?", "A A", "0:A 1:A"),
    ("A+? B", "A A B", "0:AAB"),
    ("A+? A", "A A A", "0:AA"),
    ("A??", "A", "0:"),
    ("A?? B", "A B", "0:AB"),
    ("A?? A", "A A", "0:A 1:A"),
    ("A{2,4}?", "A A A A A", "0:AA 2:AA"),
    ("A{2,}? B", "A A A B", "0:AAAB"),
    ("A{,3}? B", "A A B", "0:AAB"),
    ("A+? (B | A)", "A A B", "0:AA"),
    # greedy against reluctant, where rows may be both
    ("A* B*", "AB AB AB", "0:AAA"),
    ("A*? B*", "AB AB AB", "0:BBB"),
    ("A+ B+", "AB AB AB", "0:AAB"),
    ("A+? B+", "AB AB AB", "0:ABB"),
    ("A+ B+?", "AB AB AB", "0:AAB"),
    ("A+? B+?", "AB AB AB", "0:AB"),
    ("A? B", "AB AB", "0:AB"),
    ("A?? B", "AB AB", "0:B 1:B"),
    ("A{1,2} B", "AB AB AB", "0:AAB"),
    ("A{1,2}? B", "AB AB AB", "0:AB"),
    ("A* B", "AB", "0:B"),
    ("A* A", "A A A", "0:AAA"),
    ("A+ A{2}", "A A A A", "0:AAAA"),
    # alternation
    ("A | B", "A B C", "0:A 1:B"),
    ("A | B", "AB", "0:A"),
    ("B | A", "AB", "0:B"),
    ("A B | A", "A B A", "0:AB 2:A"),
    ("A | A B", "A B A", "0:A 2:A"),
    ("(A | B)+", "A B A C B", "0:ABA 4:B"),
    ("(A | B) C", "A C B C", "0:AC 2:BC"),
    ("A (B | C) D", "A B D A C D", "0:ABD 3:ACD"),
    ("A | B | C", "C B A", "0:C 1:B 2:A"),
    ("(A | B)*? C", "A B C", "0:ABC"),
    ("(A B | A) B", "A B B A B", "0:ABB 3:AB"),
    ("A (B | ()) C", "A C A B C", "0:AC 2:ABC"),
    ("(() | A)", "A", "0:"),
    ("(A | ())", "A B", "0:A 1:"),
    # groups
    ("(A B)+", "A B A B A", "0:ABAB"),
    ("(A B)* C", "A B A B C", "0:ABABC"),
    ("(A B)+?", "A B A B", "0:AB 2:AB"),
    ("(A B){2}", "A B A B A B", "0:ABAB"),
    ("(A B?)+", "A A B A", "0:AABA"),
    ("((A))", "A", "0:A"),
    ("(A (B (C)))", "A B C", "0:ABC"),
    ("(A+ B)+ C", "A A B A B C", "0:AABABC"),
    ("(A | B C)+", "A B C A", "0:ABCA"),
    ("(A* B)*", "A B B A", "0:ABB 3:"),
    ("(A B){1,2} A", "A B A B A", "0:ABABA"),
    ("(A B){1,2}? A", "A B A B A", "0:ABA"),
    # nothing
    ("", "A B", "0: 1:"),
    ("()", "A", "0:"),
    ("() A ()", "A B", "0:A"),
    ("()*", "A", "0:"),
    ("(A*)*", "A A B", "0:AA 2:"),
    ("(A?)+", "A A B", "0:AA 2:"),
    ("(A*?)*", "A A", "0:AA"),
    ("(A?){2}", "A A A", "0:AA 2:A"),
    ("(A | ())+ B", "A A B", "0:AAB"),
    # anchors
    ("^ A", "A A", "0:A"),
    ("A $", "A A", "1:A"),
    ("^ A+ $", "A A", "0:AA"),
    ("^ A+ $", "A B", ""),
    ("^ A", "B A", ""),
    ("A+ $", "A B A A", "2:AA"),
    ("A+? $", "A A", "0:AA"),
    ("(^ A | B)", "A A B", "0:A 2:B"),
    ("(^ | A) B", "B A B B", "0:B 1:AB"),
    ("A ($ | B)", "A B A", "0:AB 2:A"),
    ("A ^", "A A", ""),
    ("$", "A", ""),
    ("^", "A B", "0:"),
    # permutations
    ("PERMUTE(A, B)", "B A A B", "0:BA 2:AB"),
    ("PERMUTE(A, B)", "AB AB", "0:AB"),
    ("PERMUTE(A, B, C)", "C A B", "0:CAB"),
    ("PERMUTE(A, B, C)", "ABC ABC ABC", "0:ABC"),
    ("PERMUTE(B, A)", "AB AB", "0:BA"),
    ("PERMUTE(A+, B)", "A A B A", "0:AAB"),
    ("PERMUTE(A, B?)", "A B", "0:AB"),
    ("PERMUTE(A, B) C", "B A C", "0:BAC"),
    ("PERMUTE(A)", "A", "0:A"),
    ("PERMUTE(A B, C)", "C A B", "0:CAB"),
    ("PERMUTE(A, B){2}", "A B B A", "0:ABBA"),
    # exclusion
    ("{- A -} B", "A B", "0:aB"),
    ("A {- B+ -} C", "A B B C", "0:AbbC"),
    ("{- A+ -} B {- C -}", "A A B C", "0:aaBc"),
    ("A {- B* -} C", "A C", "0:AC"),
    ("({- A -} | B)+", "A B A", "0:aBa"),
    ("{- A {- B -} -} C", "A B C", "0:abC"),
    ("{- (A | B) -} C", "B C", "0:bC"),
]


@pytest.mark.parametrize(("pattern", "rows", "expected"), CASES)
def test_patterns(pattern: str, rows: str, expected: str) -> None:
    assert found(pattern, rows) == expected


SKIPS = [
    ("A B", "A B A B", "TO NEXT ROW", "0:AB 2:AB"),
    ("A+", "A A A", "TO NEXT ROW", "0:AAA 1:AA 2:A"),
    ("A+ B", "A A B", "TO NEXT ROW", "0:AAB 1:AB"),
    ("A*", "A B", "TO NEXT ROW", "0:A 1:"),
    ("A B A", "A B A B A", "TO NEXT ROW", "0:ABA 2:ABA"),
    ("A B A", "A B A B A", "PAST LAST ROW", "0:ABA"),
    ("A B+ A", "A B B A B A", "TO LAST A", "0:ABBA 3:ABA"),
    ("A B+ A", "A B A B A", "TO A", "0:ABA 2:ABA"),
    ("A B+ C", "A B B C", "TO FIRST B", "0:ABBC"),
    ("A B+", "A B B A B", "TO FIRST B", "0:ABB 3:AB"),
    ("A+ B+", "A B B A B", "TO LAST B", "0:ABB 3:AB"),
    ("A B C?", "A B C A B", "TO B", "0:ABC 3:AB"),
    ("A B", "A B A B", "TO FIRST B", "0:AB 2:AB"),
    ("A{2} B*", "A A A B", "TO LAST A", "0:AA 1:AAB"),
    ("A A?", "A A A", "TO NEXT ROW", "0:AA 1:AA 2:A"),
    ("()", "A A", "PAST LAST ROW", "0: 1:"),
]


@pytest.mark.parametrize(("pattern", "rows", "skip", "expected"), SKIPS)
def test_skips(pattern: str, rows: str, skip: str, expected: str) -> None:
    assert found(pattern, rows, skip) == expected


def test_a_skip_to_a_subset() -> None:
    assert found("A (B | C)+ A", "A B C A B A", "TO LAST S", "SUBSET S = (B, C)") == "0:ABCA 3:ABA"
    assert found("A+ B+", "A A B B A B", "TO LAST S", "SUBSET S = (A, B)") == "0:AABB 4:AB"


@pytest.mark.parametrize(
    ("pattern", "rows", "skip", "message"),
    [
        ("A B?", "A A", "TO B", "a match has no row of B"),
        ("A B?", "A A", "TO LAST B", "a match has no row of B"),
        ("A B?", "A A", "TO FIRST B", "a match has no row of B"),
        ("A+", "A A", "TO FIRST A", "leads back to the first row"),
        ("A", "A", "TO LAST A", "leads back to the first row"),
        ("A* B", "A B B", "TO LAST B", "leads back to the first row"),
        ("A | B", "B", "TO A", "a match has no row of A"),
        ("(A | B) B+", "A B B B", "TO FIRST B", "leads back to the first row"),
    ],
)
def test_a_skip_that_leads_nowhere_is_an_error(pattern: str, rows: str, skip: str, message: str) -> None:
    with pytest.raises(sq.DataError, match=message):
        found(pattern, rows, skip)


WITHIN = [
    ("A B", "A B", "WITHIN 2", "0:AB"),
    ("A B", "A B", "WITHIN 1", ""),
    ("A+", "A A A A A", "WITHIN 2", "0:AA 2:AA 4:A"),
    ("A+ B", "A A A B", "WITHIN 3", "1:AAB"),
    ("A+? B", "A A B", "WITHIN 2", "1:AB"),
    ("A B* C", "A B B C A C", "WITHIN 2", "4:AC"),
    ("A*", "A A B", "WITHIN 1", "0:A 1:A 2:"),
    ("A+ $", "A A A", "WITHIN 2", "1:AA"),
    ("A | A B", "A B", "WITHIN 1", "0:A"),
    ("A B | A", "A B", "WITHIN 1", "0:A"),
]


@pytest.mark.parametrize(("pattern", "rows", "within", "expected"), WITHIN)
def test_within(pattern: str, rows: str, within: str, expected: str) -> None:
    assert found(pattern, rows, more=within) == expected
