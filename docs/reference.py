"""What MkDocs asks when it builds the site: the page of public names, written from their docstrings, and the order of pages.

The reference cannot be out of date, since nobody writes it. A page that the order names and that is not there is left out.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File, Files

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

    parts = ["# Reference\n\nEvery public name, from the code itself."]
    for name, imported in PLACES:
        module = import_module(name)
        parts.append(f"## {name}\n\n`{imported}`")
        parts += [_describe(module, public) for public in sorted(module.__all__) if not public.startswith("_")]
    return "\n\n".join(parts) + "\n"


def _describe(module: ModuleType, name: str) -> str:
    thing = getattr(module, name)
    lines = [f"### {name}", f"    {name}{_signature(thing)}", inspect.getdoc(thing) or ""]
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for method, value in sorted(vars(thing).items()):
            member = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if method.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
                continue
            about = (inspect.getdoc(member) or "").split("\n\n")[0]
            lines.append(f"- `.{method}{'' if isinstance(member, property) else _signature(member)}` {about}".rstrip())
    return "\n\n".join(line for line in lines if line)


def _signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return ""
