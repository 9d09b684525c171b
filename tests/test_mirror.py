"""The tests mirror adapter/: a module shows its rule in a doctest, or has tests of its name; a test's name is a module's."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
ADAPTER = TESTS.parent / "adapter"
SMALL = 60
"""Modules of fewer lines are shown by those that use them."""
FOLDERS = [path.name for path in ADAPTER.iterdir() if (TESTS / path.name).is_dir()]


def shown(module: Path) -> bool:
    """Whether a module has a doctest, or tests of its name, in its place or on Spark."""
    beside = (TESTS / module.relative_to(ADAPTER)).parent
    named = (
        *beside.glob(f"test_{module.stem}.py"),
        *beside.glob(f"test_{module.stem}_*.py"),
        *(TESTS / "functional").rglob(f"test_{module.stem}.py"),
    )
    return bool(named) or ">>>" in module.read_text()


def test_each_module_shows_its_rule() -> None:
    modules = (path for path in sorted(ADAPTER.rglob("*.py")) if not path.stem.startswith("__"))
    large = (path for path in modules if len(path.read_text().splitlines()) >= SMALL)
    assert [str(path.relative_to(ADAPTER)) for path in large if not shown(path)] == []


def test_each_test_stands_where_its_module_does() -> None:
    """`test_compare_lookups.py` is of `compare.py`: what is long stands in several files."""
    lost = []
    for folder in FOLDERS:
        for path in sorted((TESTS / folder).rglob("test_*.py")):
            words = path.stem.removeprefix("test_").split("_")
            names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
            package = ADAPTER / path.parent.relative_to(TESTS)
            if not any((package / f"{name}.py").exists() for name in names):
                lost.append(str(path.relative_to(TESTS)))
    assert lost == []
