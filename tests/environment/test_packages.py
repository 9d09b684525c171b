"""Packages are fetched once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import packages
from dbt.adapters.spark_streaming.environment.java import Java

JAVA = Java(Path("/java"), "17")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What was asked for, instead of asking."""
    calls: list[Sequence[str]] = []

    def fetch(wanted: Sequence[str], java: Java, cache: Path, settings: Mapping[str, str]) -> list[Path]:
        calls.append(wanted)
        folder = cache / "ivy" / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{coordinate.replace(':', '_')}.jar" for coordinate in wanted]
        for path in paths:
            path.touch()
        return paths

    monkeypatch.setattr(packages, "_fetch", fetch)
    return calls


def test_the_second_call_reaches_out_no_more(tmp_path: Path, fetched: list[Sequence[str]]) -> None:
    first = packages.jars(["g:a:1", "g:b:2"], JAVA, tmp_path)
    again = packages.jars(["g:b:2", "g:a:1"], JAVA, tmp_path)
    assert first == again
    assert fetched == [["g:a:1", "g:b:2"]]


def test_another_set_is_another_fetch(tmp_path: Path, fetched: list[Sequence[str]]) -> None:
    packages.jars(["g:a:1"], JAVA, tmp_path)
    packages.jars(["g:a:2"], JAVA, tmp_path)
    packages.jars(["g:a:2"], JAVA, tmp_path, {"spark.jars.excludes": "g:c"})
    assert len(fetched) == 3


def test_a_deleted_jar_is_fetched_again(tmp_path: Path, fetched: list[Sequence[str]]) -> None:
    (jar,) = packages.jars(["g:a:1"], JAVA, tmp_path)
    jar.unlink()
    assert packages.jars(["g:a:1"], JAVA, tmp_path) == [jar]
    assert len(fetched) == 2


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, fetched: list[Sequence[str]]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(DbtRuntimeError, match=r"Java packages are kept in .*file, which can't be written"):
        packages.jars(["g:a:1"], JAVA, blocked)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DBT_SPARK_STREAMING_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert packages.default_cache() == tmp_path / "dbt-spark-streaming"
    monkeypatch.setenv("DBT_SPARK_STREAMING_CACHE", str(tmp_path / "own"))
    assert packages.default_cache() == tmp_path / "own"
