"""The folder in which a stream remembers how far it is: whose it is, and that one stream at a time uses it.

A mark in the folder says which source was read, in which types its columns came, and where matches were written. A stream that
differs there would skip events, look for them in other buckets of its state, or leave half of its results elsewhere; it is refused
before it reads a row. Queries and rules may change. The mark says which there were in the last run, by the fingerprint of what each
asks, and gives every one that is new, changed or back again a *generation* of its own:

    run 1   neg 0, pairs 0         run 2   pairs 0         run 3   neg 1, pairs 0

Buckets of state are only looked at when an event or a timer reaches them, so what a query left behind in run 1 is still there in
run 3, and has seen nothing of run 2. By its generation it is known to be stale. With it stands whether a query goes together with
others of its key (`together`), whose state is theirs: a query keeps its place as long as it is there.

State is kept in a number of buckets, which is chosen when the stream begins. A *section* of it runs with one number; another
number begins another section (`rescaling`), with a folder of its own below this one in which Spark remembers how far it is, and the
mark says which it is. Micro-batches go on being counted from section to section.

A checkpoint has a source of its own beside the declared one, the folder END: the row that comes from it says that no event will
come any more, so that everything is decided. A stream that has seen it is over. Checkpoints that are older than this have none.

A lock in the folder is held by the process that runs the stream, and goes with the process, however that ends. Mark and lock need a
file system: a checkpoint that is named by a URL has neither, and to keep it apart is up to its owner.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqube.errors import DataError, PlanError
from seqube.spark.sinks import is_url
from seqube.spark.streaming.declaration import Declaration

try:
    import fcntl
except ImportError:
    raise PlanError(
        "pipelines lock their checkpoint as POSIX systems do it, and this system cannot\n"
        "  hint: on Windows, run Seqube in WSL or in a Linux container"
    ) from None

MARK_FILE, LOCK_FILE = "seqube.json", "seqube.lock"
END = "seqube-end"
FIRST_BUCKETS = 16  # of a checkpoint that does not say how many
SECTION = "rescaled"  # what the folders of later sections begin with
_OWN = "give this pipeline a checkpoint of its own, or remove that one to begin anew"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a stream that runs with one number of buckets."""

    folder: str  # where Spark remembers how far it is
    buckets: int
    first: int = 0  # the number of what Spark calls its micro-batch 0
    own_buckets: Mapping[str, int] = field(default_factory=dict)  # of queries whose state could not be cut, by their fingerprint


@contextmanager
def hold(checkpoint: str) -> Iterator[None]:
    """Keep other streams away from a checkpoint."""
    if is_url(checkpoint):
        yield
        return
    folder = Path(checkpoint)
    if not (folder / MARK_FILE).exists() and folder.exists() and any(path.name != LOCK_FILE for path in folder.iterdir()):
        raise DataError(f"the folder {folder} is not empty and no checkpoint of ours\n  hint: name an empty or new folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DataError(
                f"the checkpoint {folder} is in use by process {file.read().strip()}: two streams would each do half of the work\n"
                "  hint: stop that one first, or give this pipeline a checkpoint of its own"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def claim(declared: Declaration, columns: Mapping[str, str], n_buckets: int) -> Section:
    """Make sure that a checkpoint is this pipeline's own, and mark it; `columns` are those of the source with their types.

    Gives what is known of its section. Its state is kept in `n_buckets` where it is new, else in as many as it began with.
    """
    assert declared.checkpoint is not None
    if is_url(declared.checkpoint):
        return Section(declared.checkpoint, FIRST_BUCKETS)
    mark = Path(declared.checkpoint) / MARK_FILE
    theirs = _read(mark)
    if theirs.get("ended"):
        raise DataError(
            f"the stream of the checkpoint {mark.parent} was brought to its end: all events that come now would be late\n"
            f"  hint: {_OWN}"
        )
    own: dict[str, Any] = {name: getattr(declared, name) for name in ("format", "path", "type", "time", "unit")}
    _refuse(mark.parent, "another source", theirs, own, _OWN)
    results: dict[str, str] = {}
    for name in ("matches", "forecasts"):
        results |= declared.sinks[name].claim(name) if name in declared.sinks else {}
    _refuse(mark.parent, "another pipeline", theirs, results, _OWN)
    known = theirs.get("columns", {})
    retyped = {name: kind for name, kind in columns.items() if name in known}
    _refuse(mark.parent, "columns of other types", known, retyped, "cast the columns in the source, or begin anew elsewhere")
    is_new = not theirs
    kept = {name: theirs.get(name, is_new) for name in ("has_end", "shares")}
    kept |= {"buckets": theirs.get("buckets", n_buckets if is_new else FIRST_BUCKETS)}
    _write(mark, {**theirs, **own, **results, **kept, "columns": {**known, **columns}})
    folder = str(mark.parent / theirs["folder"]) if "folder" in theirs else declared.checkpoint
    return Section(folder, int(kept["buckets"]), theirs.get("first", 0), theirs.get("own_buckets", {}))


def begin_section(checkpoint: str, section: Section) -> None:
    """Let the next start go on in this section; whole or not at all."""
    mark = Path(checkpoint) / MARK_FILE
    about = {"buckets": section.buckets, "first": section.first, "own_buckets": dict(section.own_buckets)}
    _write(mark, {**_read(mark), "folder": Path(section.folder).name, **about})


def end_of(checkpoint: str) -> str | None:
    """The folder from which the end of the stream comes; None where the checkpoint knows of none."""
    folder = "/".join((checkpoint.rstrip("/"), END))
    if is_url(checkpoint):
        return None
    if not _read(Path(checkpoint) / MARK_FILE).get("has_end"):
        return None
    Path(folder).mkdir(exist_ok=True)
    return folder


def announce_end(checkpoint: str) -> None:
    """Let the end of the stream come, with the next micro-batch."""
    folder = end_of(checkpoint)
    if folder is None:
        raise DataError(
            f"the stream of the checkpoint {checkpoint} cannot be drained: it is at a URL, or older than that there is an end\n"
            "  hint: run it with --once, or anew with another checkpoint"
        )
    draft = Path(checkpoint) / f".{END}"
    draft.write_text("end\n", encoding="utf-8")
    draft.replace(Path(folder) / "end.txt")


def note_end(checkpoint: str) -> None:
    """Remember that the stream is over."""
    mark = Path(checkpoint) / MARK_FILE
    _write(mark, {**_read(mark), "ended": True})


def count_generations(
    checkpoint: str, fingerprints: Mapping[str, str], together: Collection[str] = ()
) -> dict[str, tuple[int, bool]]:
    """The generation of each query that now runs: the one it had in the last run, if it was there as it is now, else a new one.

    And whether its state is that of queries that go together: it stays where it is, and is there for a new one of `together`.
    """
    if is_url(checkpoint):
        return dict.fromkeys(fingerprints, (0, False))
    mark = Path(checkpoint) / MARK_FILE
    theirs = _read(mark)
    newest = theirs.get("generation", 0)
    if "queries" in theirs:
        last = theirs["queries"]
    else:  # a checkpoint that is new, or was made before there were generations: what that holds is of generation 0, each by itself
        last = {name: [asked, newest, name in together and theirs.get("shares", False)] for name, asked in fingerprints.items()}
    own = {}
    for name, asked in fingerprints.items():
        before, *known = last.get(name, [None])
        own[name] = (known[0], any(known[1:])) if before == asked else (newest + 1, name in together)
    running = {name: [asked, *own[name]] for name, asked in fingerprints.items()}
    _write(mark, {**theirs, "generation": max([newest, *(generation for generation, _ in own.values())]), "queries": running})
    return own


def _read(mark: Path) -> dict[str, Any]:
    return json.loads(mark.read_text(encoding="utf-8")) if mark.exists() else {}


def _write(mark: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    draft = mark.with_name(f".{MARK_FILE}")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(mark)


def _refuse(folder: Path, whose: str, theirs: Mapping[str, Any], own: Mapping[str, Any], hint: str) -> None:
    changed = [name for name in own if theirs.get(name, own[name]) != own[name]]
    if changed:
        what = ", ".join(f"{name} was {theirs[name]!r} and is {own[name]!r}" for name in changed)
        raise DataError(f"the checkpoint {folder} belongs to {whose}: {what}\n  hint: {hint}")
