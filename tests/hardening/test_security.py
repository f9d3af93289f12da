"""Nothing from outside is run as code: neither by the sources' own words, nor through files, states and the page."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.matching import Matcher
from seqube.engine.snapshots import unseal
from seqube.events.documents import MAX_VALUES, parse_yaml
from seqube.plan.planner import plan_matches
from seqube.spark.streaming.declaration import read_declaration

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "seqube").rglob("*.py"))

# What runs text or bytes as code, or starts programs. Each that is there has its reason.
FORBIDDEN = {"eval", "exec", "compile", "__import__", "pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "input"}
SHELLS = {"system", "popen", "spawn", "startfile"}


def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Every call with the dotted name it is made by."""
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCES[0].parent)))
def test_sources_run_no_text_as_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & FORBIDDEN, f"{path.name}, line {getattr(node, 'lineno', 0)}"
    for name, call in calls(tree):
        first, last = name.split(".")[0], name.split(".")[-1]
        assert first not in FORBIDDEN, f"{path.name}, line {call.lineno}: {name}"
        assert not (first == "os" and last in SHELLS), f"{path.name}, line {call.lineno}: {name}"
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        assert "shell" not in keywords, f"{path.name}, line {call.lineno}: a shell"
        assert not ("allow_pickle" in keywords and ast.unparse(keywords["allow_pickle"]) != "False"), (
            f"{path.name}, line {call.lineno}"
        )


def test_yaml_is_loaded_safely() -> None:
    """Every loader that is named is a safe one."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        named |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not named & {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "unsafe_load", "full_load", "load_all"}, path.name


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch {}']",
        "a: !!python/object/new:subprocess.Popen [['touch', '{}']]",
        "a: !!python/name:os.system",
        "!!python/module:os",
    ],
)
def test_yaml_makes_no_objects(text: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    file = tmp_path / "file.yaml"
    file.write_text(text.format(touched))
    for read in (sq.Hierarchy.load, sq.Rules.load, read_declaration):
        with pytest.raises(sq.SequbeError):
            read(file)
    assert not touched.exists()


def test_aliases_do_not_grow_without_end() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]" for k in range(1, 60))]
    with pytest.raises(sq.SchemaError, match=f"more than {MAX_VALUES:,} values, aliases counted"):
        parse_yaml("\n".join(lines))
    assert parse_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


# ---------------------------------------------------------------- state


MATCHER = Matcher(plan_matches(sq.parse("SEQ(A a, B b) WITHIN 10")))


def state() -> bytes:
    kept, _ = MATCHER.step(MATCHER.start(), sq.Events(pa.table({"type": ["A", "B"], "ts": [0, 1]})))
    return kept.to_bytes()


def test_state_is_data() -> None:
    """Arrow and JSON: nothing in it can be run, and what is not such a state is an error."""
    data = state()
    assert b"pickle" not in data
    table, counted = unseal(data)
    assert counted.num_columns == 0
    assert set(json.loads(table.schema.metadata[b"seqube"])) == {"version", "type", "time", "unit", "decided", "kept"}
    assert len(MATCHER.restore(data).to_bytes()) == len(data)


@pytest.mark.parametrize("cut", [0, 1, 8, 100, -1, -8])
def test_damaged_state_is_an_error(cut: int) -> None:
    with pytest.raises(sq.DataError, match="state"):
        MATCHER.restore(state()[:cut])


def test_any_damage_is_noticed() -> None:
    data = state()
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(sq.DataError, match="damaged"):
            MATCHER.restore(bytes(damaged))


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["../up", "a/b", "/root", "..", ".", "", ".hidden/x", "a\\b", "x\0y"])
def test_names_of_queries_do_not_leave_the_folder(name: str, tmp_path: Path) -> None:
    """A query's name becomes a folder or a file of results."""
    file = tmp_path / "p.yaml"
    text = {"source": {"path": "in"}, "queries": {name: "A WITHIN 5"}, "sinks": {"matches": "out"}}
    file.write_text(json.dumps(text))
    with pytest.raises(sq.SequbeError):
        read_declaration(file)


@pytest.mark.parametrize("name", ["../up", "/root/x", "a/../../b"])
def test_the_command_line_writes_inside_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "q.sqb").write_text(f"-- name: {name}\nA WITHIN 5\n")
    (tmp_path / "e.csv").write_text("type,ts\nA,1\n")
    command = [
        sys.executable,
        "-m",
        "seqube",
        "run",
        "q.sqb",
        "--events",
        "e.csv",
        "--out",
        "deep/er/out",
        "--format",
        "csv",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()} - {"q.sqb", "e.csv"}
    assert written <= {"deep"}
    assert done.returncode in (0, 2)
    inside = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
    assert all(path.resolve().is_relative_to((tmp_path / "deep" / "er" / "out").resolve()) for path in inside)


@pytest.mark.parametrize("section", ["hierarchy", "queries"])
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link", "~nobody-of-this-name/x", "a\0b", "in/../../secret"])
def test_a_pipeline_reads_files_of_its_own_folder_only(section: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("A WITHIN 5")
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    text = {"source": {"path": "in"}, "queries": {"q": "A WITHIN 5"}, "sinks": {"matches": "out"}} | {section: path}
    (folder / "p.yaml").write_text(json.dumps(text))
    with pytest.raises(sq.SchemaError, match=r"is outside of the folder of this file|is no path"):
        read_declaration(folder / "p.yaml")


def test_a_pipeline_reads_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "below" / "q.sqb").write_text("-- name: pairs\nSEQ(A a, B b) WITHIN 5")
    (tmp_path / "h.yaml").write_text("P: [A, B]")
    text = {"source": {"path": "in"}, "queries": "below/q.sqb", "hierarchy": "h.yaml", "sinks": {"matches": "out"}}
    (tmp_path / "p.yaml").write_text(json.dumps(text))
    declared = read_declaration(tmp_path / "p.yaml")
    assert list(declared.queries) == ["pairs"]
    assert declared.hierarchy is not None


# ---------------------------------------------------------------- packages


@pytest.mark.slow
def test_packages_have_no_known_weaknesses() -> None:
    done = subprocess.run([sys.executable, ROOT / ".ci" / "audit"], capture_output=True, text=True, check=False)
    if "NOT CHECKED" in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout


ADVISORY = {
    "id": "PYSEC-2026-1",
    "modified": "2026-11-01T00:00:00Z",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "PyArrow"}, "ranges": [{"type": "ECOSYSTEM", "events": []}]}],
}


@pytest.mark.parametrize(
    ("form", "events", "is_weak"),
    [
        ("json", [{"introduced": "0"}], True),
        ("jsonl", [{"introduced": "0"}, {"fixed": "1.0"}], False),
        ("zip", [{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"}], True),
        ("folder", [{"introduced": "0"}, {"last_affected": "999"}], True),
        ("json", [{"introduced": "999"}], False),
    ],
)
def test_advisories_are_read_from_a_file_where_nobody_can_be_asked(
    form: str, events: list[dict[str, str]], is_weak: bool, tmp_path: Path
) -> None:
    text = json.dumps(ADVISORY).replace('"events": []', f'"events": {json.dumps(events)}')
    path = tmp_path / f"advisories.{form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("PYSEC-2026-1.json", text)
    elif form == "folder":
        path.mkdir()
        (path / "PYSEC-2026-1.json").write_text(text)
    else:
        path.write_text(text)
    done = subprocess.run([sys.executable, ROOT / ".ci" / "audit", path], capture_output=True, text=True, check=False)
    assert done.returncode == is_weak, done.stderr
    assert ("PYSEC-2026-1" in done.stdout) is is_weak
    assert "by 1 advisories in" in done.stdout
    assert done.stdout.strip().endswith("the newest of 2026-11-01")


@pytest.mark.parametrize("text", ["[]", "{", '{"id": 1, "affected": 5}', '{"affected": [{"package": {"ecosystem": "PyPI"}}]}'])
def test_what_holds_no_advisories_counts_as_not_checked(text: str, tmp_path: Path) -> None:
    (tmp_path / "advisories.json").write_text(text)
    command = [sys.executable, ROOT / ".ci" / "audit", tmp_path / "advisories.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("NOT CHECKED")
