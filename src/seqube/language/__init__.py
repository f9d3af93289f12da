"""The language: text to bound tree, and back.

`parse` reads a query and resolves its names; `check` compares it with the columns of the events; `parse_file` reads a file of
queries; `writer.write` (or `str(query)`) is the canonical text. The way is grammar, parser (a draft, names as written), binder
(names resolved), types (kinds of values); each collects what is wrong with its place in the text.
"""

from __future__ import annotations

from seqube.language.files import parse, parse_file
from seqube.language.functions import Kind
from seqube.language.names import column_name
from seqube.language.tree import Query
from seqube.language.types import check

__all__ = ["Kind", "Query", "check", "column_name", "parse", "parse_file"]
