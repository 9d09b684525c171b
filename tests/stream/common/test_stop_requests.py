"""A request to stop is noticed by the run it is meant for."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.common.stop_requests import StopRequests


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("views", "shop.views", "shop.views__state", Storage(str(tmp_path), lambda: None), ())


def test_a_request_to_stop_is_noticed_once_for_its_model(model: StreamModel) -> None:
    looks = StopRequests(model.storage, every=0.05)
    model.storage.write_text(model.stop_request, "")  # of a run before
    request = looks.watch(model)
    other = looks.watch(replace(model, target="shop.others"))
    time.sleep(0.3)
    assert not request.is_asked
    model.storage.write_text(model.stop_request, "")
    deadline = time.monotonic() + 10
    while not request.is_asked:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not other.is_asked
    looks.forget(request)
    again = looks.watch(model, keep=True)
    while not again.is_asked:
        assert time.monotonic() < deadline, "a run that starts again is the one that it is meant for"
        time.sleep(0.02)
    looks.forget(again)
    assert not looks.watch(model).is_asked, "what ended the run before doesn't end this one"


def test_the_folder_is_listed_once_for_all_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path), lambda: None)
    asked: list[Any] = []

    def listed(path: str) -> list[str]:
        asked.append(path)
        return []

    monkeypatch.setattr(storage, "list", listed)
    looks = StopRequests(storage, every=0.2)
    requests = [
        looks.watch(StreamModel(f"m{number}", f"shop.m{number}", "s", storage, ())) for number in range(20)
    ]
    time.sleep(1.1)
    assert 3 <= len(asked) <= 8
    for each in requests:
        looks.forget(each)
    time.sleep(0.5)
    before = len(asked)
    time.sleep(0.5)
    assert len(asked) == before
