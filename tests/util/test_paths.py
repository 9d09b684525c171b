"""Paths that begin with a home folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.packages import default_cache
from dbt.adapters.spark_streaming.util.paths import expand_home


def test_a_home_folder_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_home("~/spark") == Path("/home/me/spark")
    assert expand_home("/a/~/spark") == Path("/a/~/spark")


def test_a_home_folder_that_is_not_known_is_a_message() -> None:
    with pytest.raises(DbtRuntimeError, match="path ~nobody-is-called-so/spark begins with a home folder"):
        expand_home("~nobody-is-called-so/spark")


def test_the_cache_of_a_user_without_a_home_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of `docker run --user 12345`."""

    def unknown(_: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "DBT_SPARK_STREAMING_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    with pytest.raises(DbtRuntimeError, match=r"path ~/\.cache begins with a home folder"):
        default_cache()
