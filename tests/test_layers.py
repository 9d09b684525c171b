"""The folders of adapter/ are layers: a module imports only from its own layer and from those before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ADAPTER = Path(__file__).parents[1] / "adapter"

LAYERS: dict[str, tuple[str, ...]] = {
    "": (
        "util",
        "sources",
        "credentials",
        "environment",
        "query",
        "stream",
        "project",
        "translate",
        "relation",
        "service",
        "connections",
        "methods",
        "impl",
        "cli",
    ),
    "query": (
        "errors",
        "state_signature",
        "program",
        "sql",
        "windows",
        "frontend",
        "aggregates",
        "normalize",
        "plan",
        "identity",
        "rewrites",
        "diagnostics",
        "planner",
        "generation",
        "batch",
        "explain",
    ),
    "stream": (
        "common",
        "progress",
        "evolution",
        "storage",
        "iceberg",
        "sources",
        "state",
        "sink",
        "microbatch",
        "run",
        "lifecycle",
    ),
}
"""Folder → what is in it, the lowest layer first."""

FORBIDDEN = {"query": "pyspark", "stream": "sqlglot", "sources": "pyspark"}
"""Folder → the library that it doesn't know."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(folder: str) -> Iterator[tuple[tuple[str, ...], ast.Module]]:
    for path in sorted((ADAPTER / folder).rglob("*.py")):
        yield path.relative_to(ADAPTER).with_suffix("").parts, parsed(path)


def imported(parts: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yields what a module imports of the package, those imports that are for types alone included."""
    package = parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                above = package[: len(package) - (node.level - 1)]
            elif (node.module or "").startswith("dbt.adapters.spark_streaming"):
                above = ()
            else:
                continue
            named = (node.module or "").removeprefix("dbt.adapters.spark_streaming").strip(".")
            of = (*above, *(named.split(".") if named else ()))
            for alias in node.names:
                yield (*of, alias.name)


@pytest.mark.parametrize("folder", LAYERS)
def test_a_module_imports_only_from_the_layers_before_its_own(folder: str) -> None:
    order, depth = LAYERS[folder], len(folder.split("/")) if folder else 0
    upward = []
    for parts, tree in modules(folder):
        if len(parts) <= depth or parts[depth] not in order:
            continue
        for target in imported(parts, tree):
            if target[:depth] == parts[:depth] and len(target) > depth and target[depth] in order:
                if order.index(target[depth]) > order.index(parts[depth]):
                    upward.append(f"{'.'.join(parts)} imports {'.'.join(target)}")
    assert not upward


@pytest.mark.parametrize("folder", LAYERS)
def test_each_folder_has_its_place_among_the_layers(folder: str) -> None:
    folders = {path.name for path in (ADAPTER / folder).iterdir() if (path / "__init__.py").exists()}
    assert folders - {"include"} <= set(LAYERS[folder])


@pytest.mark.parametrize(("folder", "library"), FORBIDDEN.items())
def test_a_library_that_a_folder_does_not_know(folder: str, library: str) -> None:
    knows = [
        ".".join(parts)
        for parts, tree in modules(folder)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(each.name.split(".")[0] == library for each in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == library)
    ]
    assert not knows


def test_running_code_does_not_load_the_planner() -> None:
    """What `stream/` imports of `query/`, and what that imports, has no trees of SQL."""
    of = {parts: (tree, set(imported(parts, tree))) for parts, tree in modules("")}
    todo = [parts for parts in of if parts[0] == "stream"]
    seen = set(todo)
    for parts in todo:
        for target in of[parts][1]:
            for module in (target, target[:-1], (*target, "__init__"), (*target[:-1], "__init__")):
                if module in of and module[0] == "query" and module not in seen:
                    seen.add(module)
                    todo.append(module)
    planning = [".".join(parts) for parts in seen if "from sqlglot" in ast.unparse(of[parts][0])]
    assert not planning


def test_no_folder_has_more_modules_than_a_reader_overlooks() -> None:
    crowded = {
        str(folder.relative_to(ADAPTER)): count
        for folder in (ADAPTER, *(each for each in ADAPTER.rglob("*") if each.is_dir()))
        if (count := len(list(folder.glob("*.py")))) > 26
    }
    assert not crowded
