"""What MkDocs asks when it builds the site: the page of public names, written from their docstrings, and the order of pages.

The reference cannot be out of date, since nobody writes it. A page that the order names and that is not there is left out.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from pathlib import Path
from textwrap import indent
from types import FunctionType, ModuleType
from typing import Any

from mkdocs.structure.files import File, Files

from seqube.arguments import FOR_ENGINE

REFERENCE = "reference.md"
PLACES = (
    ("seqube", "import seqube as sq"),
    ("seqube.predict", "from seqube import predict"),
    ("seqube.spark", "import seqube.spark as sqs"),
)


def on_config(config: Any) -> Any:
    config.nav = _there(config.nav, Path(config.docs_dir))
    return config


def _there(nav: list[Any], folder: Path) -> list[Any]:
    kept = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            kept.append({title: _there(target, folder)})
        elif target == REFERENCE or (folder / target).exists():
            kept.append(entry)
    return kept


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, REFERENCE, content=write_reference()))
    return files


def write_reference() -> str:
    from importlib import import_module

    parts = ["# Reference", "Every public name, from the code itself: this is what `help()` shows."]
    parts.append("Examples assume `import pyarrow as pa` and, on Spark, `spark = sqs.session()`.")
    for name, imported in PLACES:
        module = import_module(name)
        parts.append(f"## {name}\n\n`{imported}`")
        parts += [_describe(module, public) for public in sorted(module.__all__) if not public.startswith("_")]
    return "\n\n".join(parts) + "\n"


def _describe(module: ModuleType, name: str) -> str:
    thing = getattr(module, name)
    lines = [f"### {name}", f"    {name}{_signature(thing)}", _page(inspect.getdoc(thing) or "")]
    lines += [
        f"- `.{member}{_signature(value) if callable(value) else ''}` {(inspect.getdoc(value) or '').partition(chr(10) * 2)[0]}"
        for member, value in members(thing)
    ]
    return "\n\n".join(line for line in lines if line)


def members(thing: Any) -> list[tuple[str, Any]]:
    """The public methods and properties that a class itself has for people."""
    if not inspect.isclass(thing):
        return []
    plain = {
        name: value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        for name, value in sorted(vars(thing).items())
    }
    kinds = (FunctionType, property, cached_property)
    public = [(name, value) for name, value in plain.items() if not name.startswith("_") and isinstance(value, kinds)]
    return [(name, value) for name, value in public if not (value.__doc__ or "").startswith(FOR_ENGINE)]


def _page(doc: str) -> str:
    """A docstring as Markdown: its examples become code."""
    paragraphs = doc.split("\n\n")
    return "\n\n".join(indent(each, "    ") if each.startswith(">>>") else each for each in paragraphs)


def _signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return ""
