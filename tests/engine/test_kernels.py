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


def test_kernels_copy_no_arrays_by_slices() -> None:
    """Numba compiles the text of an error for it, which takes longer than most loops do: an element at a time costs nothing."""
    slow = []
    for name, tree in trees():
        for function in compiled(tree, COMPILED):
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and not is_number(node.value):
                    targets = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Subscript)]
                    if any(isinstance(part, ast.Slice) for target in targets for part in ast.walk(target.slice)):
                        slow.append(f"{name}:{node.lineno}")
    assert not slow


def is_number(value: ast.expr) -> bool:
    """A number, or a constant that stands for one."""
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())
