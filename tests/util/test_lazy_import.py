"""Modules that are imported when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ADAPTER = Path(__file__).parents[2] / "adapter"
PACKAGE = ["dbt", "adapters", "spark_streaming"]


def lazy_modules() -> Iterator[tuple[str, ast.If]]:
    """Yields the modules with lazy imports, each with the statement that has the imports for type checkers."""
    for path in sorted(ADAPTER.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.If) and "import_lazily" in "".join(map(ast.unparse, node.orelse)):
                yield str(path.relative_to(ADAPTER)), node


def for_type_checkers(path: str, statement: ast.If) -> set[tuple[str, str]]:
    """Returns the modules of the package that type checkers see imported, each with its name in the importing module."""
    found = set()
    for each in statement.body:
        if not isinstance(each, ast.ImportFrom):
            continue
        here = [*PACKAGE, *Path(path).parts[:-1]]
        package = here[: len(here) - each.level + 1] if each.level else []
        parts = [*package, *(each.module or "").split(".")]
        if parts[:3] == PACKAGE:
            for name in each.names:
                inside = [*parts[3:], name.name]
                if (ADAPTER.joinpath(*inside).with_suffix(".py")).exists():
                    found.add((".".join(inside), name.asname or name.name))
    return found


def at_run_time(statement: ast.If) -> set[tuple[str, str]]:
    """Returns the modules that are imported lazily, each with its name in the importing module."""
    (call,) = (each.value for each in statement.orelse if isinstance(each, ast.Expr))
    assert isinstance(call, ast.Call)
    named = [
        (package, *name.partition(" as ")[::2])
        for package, names in ast.literal_eval(call.args[1]).items()
        for name in names
    ]
    return {(f"{package}.{module}", alias or module) for package, module, alias in named}


@pytest.mark.parametrize("path", [path for path, _ in lazy_modules()])
def test_what_type_checkers_see_is_there_at_run_time(path: str) -> None:
    statement = dict(lazy_modules())[path]
    assert for_type_checkers(path, statement) == at_run_time(statement)


def test_there_are_such_modules() -> None:
    assert {path for path, _ in lazy_modules()} >= {"impl.py", "methods/streams.py"}
