"""The archive of loaded classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment import class_data
from dbt.adapters.spark_streaming.environment.class_data import ClassData, LoadedClasses
from dbt.adapters.spark_streaming.environment.java import Java


@pytest.fixture(autouse=True)
def not_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "a.jar"
    path.write_text("classes")
    return path


class Loaded(LoadedClasses):
    """As many classes as are said, and an empty archive."""

    def __init__(self, count: int = class_data.WORTH_KEEPING, fails: bool = False) -> None:
        self._count, self._fails = count, fails

    def class_count(self) -> int:
        return self._count

    def dump_archive(self, archive: Path) -> str:
        if self._fails:
            raise OSError("no such command")
        archive.touch()
        return ""


JAVA = Java(Path("/usr/bin/java"), "17.0.1")


def test_recorded_first_then_used(tmp_path: Path, jar: Path) -> None:
    classes = ClassData(JAVA, [jar], tmp_path)
    assert classes.is_wanted
    assert "-XX:+RecordDynamicDumpInfo" in classes.flags()
    classes.archive.parent.mkdir()
    classes.archive.touch()
    assert not classes.is_wanted
    assert f"-XX:SharedArchiveFile={classes.archive}" in classes.flags()
    assert "-XX:+RecordDynamicDumpInfo" not in classes.flags()


def test_another_class_path_or_java_has_another_archive(tmp_path: Path, jar: Path) -> None:
    archive = ClassData(JAVA, [jar], tmp_path).archive
    assert ClassData(Java(JAVA.executable, "21.0.1"), [jar], tmp_path).archive != archive
    jar.write_text("other classes")
    assert ClassData(JAVA, [jar], tmp_path).archive != archive


def test_not_where_all_is_thrown_away(tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert not ClassData(JAVA, [jar], tmp_path).is_wanted
    assert ClassData(JAVA, [jar], tmp_path).flags() == []


def test_few_classes_are_not_worth_it(tmp_path: Path, jar: Path) -> None:
    """As after `dbt debug`: a model's run comes later, and has more of them."""
    classes = ClassData(JAVA, [jar], tmp_path)
    classes.write_archive(Loaded(class_data.WORTH_KEEPING - 1))
    assert classes.is_wanted
    classes.write_archive(Loaded())
    assert not classes.is_wanted
    assert classes.archive.exists()


def test_what_fails_is_not_tried_again(tmp_path: Path, jar: Path) -> None:
    classes = ClassData(JAVA, [jar], tmp_path)
    classes.write_archive(Loaded(fails=True))
    assert not classes.is_wanted
    assert classes.flags() == []


def test_old_archives_go(tmp_path: Path, jar: Path) -> None:
    for version in ("17.0.1", "17.0.2", "17.0.3", "17.0.4"):
        ClassData(Java(JAVA.executable, version), [jar], tmp_path).write_archive(Loaded())
    assert len(list((tmp_path / "classes").glob("*.jsa"))) == class_data.KEPT
