"""Packages are fetched once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import packages
from dbt.adapters.spark_streaming.environment.java import Java

JAVA = Java(Path("/java"), "17")


class Fetched:
    """Makes empty jars, and notes what was asked for."""

    def __init__(self) -> None:
        self.calls: list[Sequence[str]] = []

    def __call__(
        self, wanted: Sequence[str], java: Java, cache: Path, settings: Mapping[str, str]
    ) -> list[Path]:
        self.calls.append(wanted)
        folder = cache / "ivy" / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{coordinate.replace(':', '_')}.jar" for coordinate in wanted]
        for path in paths:
            path.touch()
        return paths

    def jars(
        self, coordinates: Sequence[str], cache: Path, settings: Mapping[str, str] | None = None
    ) -> list[Path]:
        return packages.jars_of_packages(coordinates, JAVA, cache, settings, self)


@pytest.fixture
def fetched() -> Fetched:
    return Fetched()


def test_the_second_call_reaches_out_no_more(tmp_path: Path, fetched: Fetched) -> None:
    first = fetched.jars(["g:a:1", "g:b:2"], tmp_path)
    again = fetched.jars(["g:b:2", "g:a:1"], tmp_path)
    assert first == again
    assert fetched.calls == [["g:a:1", "g:b:2"]]


def test_another_set_is_another_fetch(tmp_path: Path, fetched: Fetched) -> None:
    fetched.jars(["g:a:1"], tmp_path)
    fetched.jars(["g:a:2"], tmp_path)
    fetched.jars(["g:a:2"], tmp_path, {"spark.jars.excludes": "g:c"})
    assert len(fetched.calls) == 3


def test_a_deleted_jar_is_fetched_again(tmp_path: Path, fetched: Fetched) -> None:
    (jar,) = fetched.jars(["g:a:1"], tmp_path)
    jar.unlink()
    assert fetched.jars(["g:a:1"], tmp_path) == [jar]
    assert len(fetched.calls) == 2


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, fetched: Fetched) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(DbtRuntimeError, match=r"Java packages are kept in .*file, which can't be written"):
        fetched.jars(["g:a:1"], blocked)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DBT_SPARK_STREAMING_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert packages.default_cache() == tmp_path / "dbt-spark-streaming"
    monkeypatch.setenv("DBT_SPARK_STREAMING_CACHE", str(tmp_path / "own"))
    assert packages.default_cache() == tmp_path / "own"
