"""What is promised of compiled loops and Numba does not check: who calls them, and that they compile in little time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import seqube

SOURCES = Path(seqube.__file__).parent
INNER = {"inner_kernel", "kernel_part"}
COMPILED = INNER | {"kernel"}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield str(path.relative_to(SOURCES).with_suffix("")).replace("/", "."), ast.parse(path.read_text())


def compiled(tree: ast.AST, kinds: set[str]) -> list[ast.FunctionDef]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [each for each in functions if kinds & {name.id for name in each.decorator_list if isinstance(name, ast.Name)}]


def uncompiled(node: ast.AST) -> Iterator[ast.AST]:
    """Everything outside of compiled functions."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and compiled(ast.Module([child], []), COMPILED)):
            yield child
            yield from uncompiled(child)


def test_python_calls_no_inner_kernel() -> None:
    """It has no door for Python, which would fall where the door is not."""
    modules = dict(trees())
    inner = {f"seqube.{name}": {each.name for each in compiled(tree, INNER)} for name, tree in modules.items()}
    assert sum(map(len, inner.values())) > 50
    called = []
    for name, tree in modules.items():
        known = set(inner[f"seqube.{name}"])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in inner:
                known |= {each.asname or each.name for each in node.names if each.name in inner[node.module]}
        names = [node for node in uncompiled(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        called += [f"{name}: {node.id}" for node in names if node.id in known]
    assert not called


def test_kernels_that_catch_lend_their_arrays() -> None:
    """What a callee held when it raised is held for ever, unless it was lent uncounted."""
    catching = [
        (name, each)
        for name, tree in trees()
        for each in compiled(tree, COMPILED)
        if any(isinstance(n, ast.Try) for n in ast.walk(each))
    ]
    assert catching
    held = []
    for name, function in catching:
        lent = {n.args[0].id for n in ast.walk(function) if isinstance(n, ast.Call) and is_named(n.func, "borrowed")}
        for tried in (n for n in ast.walk(function) if isinstance(n, ast.Try)):
            calls = [n for statement in tried.body for n in ast.walk(statement) if isinstance(n, ast.Call)]
            given = {each.id for call in calls for each in call.args if isinstance(each, ast.Name)}
            arrays = {each.arg for each in function.args.args if is_named(each.annotation, "Ints")}
            held += [f"{name}.{function.name}: {array}" for array in sorted((given & arrays) - lent)]
    assert not held


def is_named(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def test_kernels_copy_no_arrays_by_slices() -> None:
    """Numba compiles the text of an error for it, which takes longer than most loops do: an element at a time costs nothing."""
    slow = []
    for name, tree in trees():
        for function in compiled(tree, COMPILED):
            numbers = {each.arg for each in function.args.args if ast.unparse(each.annotation or each) in ("int", "float", "bool")}
            arrays = {each.arg for each in function.args.args} - numbers
            for node in ast.walk(function):
                if isinstance(node, ast.Assign):
                    slow += [f"{name}:{node.lineno}" for to, of in pairs(node) if has_slice(to) and is_array(of, arrays)]
    assert not slow


def pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def has_slice(value: ast.expr) -> bool:
    return isinstance(value, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(value.slice))


def is_array(value: ast.expr, arrays: set[str]) -> bool:
    """Whether one can tell by its looks: an argument that is no number, or a part of something."""
    return has_slice(value) or (isinstance(value, ast.Name) and value.id in arrays)
