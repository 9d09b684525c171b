"""New versions beside old ones as they are noted, and how far they are by their checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbt.adapters.spark_streaming.cli import deploy
from dbt.adapters.spark_streaming.cli.project import DbtProject, ProjectError
from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError, explain
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import Standing
from dbt.adapters.spark_streaming.stream.sources.lag import Lag, behind
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import (
    PROMOTED,
    STAGED,
    Deployment,
    Swap,
    version,
)
from dbt.adapters.spark_streaming.stream.storage.savepoints import check_whole

SPARK = cast(Any, None)


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


@pytest.fixture
def staged(model: StreamModel) -> Deployment:
    made = deployments.begin(model)
    deployments.write(model.storage, made)
    return made


def test_what_is_noted_is_read(model: StreamModel, staged: Deployment) -> None:
    storage = model.storage
    assert deployments.read(storage, model.target) == staged
    assert (staged.beside, staged.phase) == (f"lake.db.m__deploy_{staged.id}", STAGED)
    promoted = replace(staged, phase=PROMOTED, promoted=1)
    assert promoted.beside == f"lake.db.m__previous_{staged.id}"
    swapping = replace(promoted, swap=Swap(STAGED, {"table": "a"}, {"table": None}))
    deployments.write(storage, swapping)
    assert deployments.read(storage, model.target) == swapping
    deployments.forget(storage, swapping)
    assert deployments.read(storage, model.target) is None
    assert storage.list(storage.deployments) == []


def test_what_can_not_be_read(model: StreamModel, staged: Deployment) -> None:
    file = Path(deployments.folder(model.storage, model.target)) / "deployment.json"
    noted = file.read_text()
    file.write_text(noted.replace('"format": 1', '"format": 2'))
    with pytest.raises(StreamError, match=r"begun by a newer dbt-spark-streaming \(its format is 2"):
        deployments.read(model.storage, model.target)
    file.write_text("{")
    with pytest.raises(StreamError, match=r"deployment\.json can't be read"):
        deployments.read(model.storage, model.target)


def test_a_promotion_that_was_cut_short(model: StreamModel, staged: Deployment) -> None:
    check_whole(model)
    assert deployments.in_between(model.storage) == set()
    for to, command, back in ((PROMOTED, "promote", "rollback"), (STAGED, "rollback", "promote")):
        deployments.write(model.storage, replace(staged, swap=Swap(to, {}, {})))
        with pytest.raises(StreamError) as raised:
            check_whole(model)
        assert raised.value.msg == (
            f"Model m: `dbt-stream deploy {command} m` was interrupted, so its table, its state and its checkpoint may be "
            f"of two versions. To finish it: `dbt-stream deploy {command} m`. To undo it: `dbt-stream deploy {back} m`."
        )
        assert deployments.in_between(model.storage) == {"lake.db.m", staged.new, staged.previous}


def test_commands_are_those_of_the_version(model: StreamModel, staged: Deployment) -> None:
    new = version(model, staged.new)
    assert (model.is_beside, new.is_beside, version(model, staged.previous).is_beside) == (False, True, True)
    assert new.state == f"{staged.new}__state"
    assert new.rebuild == "`dbt-stream deploy init --full-refresh m`"
    assert new.build_anew == f"To rebuild it: {new.rebuild}."
    assert model.build_anew == (
        "To rebuild it: `dbt run --full-refresh --select m`; or next to the old version, which stays until the new one "
        "has caught up: `dbt-stream deploy init m`; or with a table that has the rows so far: `dbt-stream state "
        "bootstrap m --from <table>`."
    )
    assert len({model.checkpoint, new.checkpoint, version(model, staged.previous).checkpoint}) == 3


def test_readers_are_told_of_a_model_that_was_promoted_once(model: StreamModel, staged: Deployment) -> None:
    storage = model.storage
    assert deployments.of_table(storage, model.target) is None
    promoted = replace(staged, phase=PROMOTED, promoted=1)
    deployments.write(storage, promoted)
    for table in (model.target, model.changes):
        assert deployments.of_table(storage, table) == promoted
    assert deployments.of_table(storage, "lake.db.other") is None


def test_a_table_replaced_under_a_run_is_told(model: StreamModel) -> None:
    said = explain(model, Exception("Table UUID does not match: current=1 != refreshed=2")).msg
    assert "was replaced while it ran (as by `dbt-stream deploy promote`)" in said


def checkpoint(model: StreamModel, reads: list[str], offsets: list[object], done: bool = True) -> None:
    """A checkpoint after one micro-batch."""
    folder = Path(model.checkpoint)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id": "q"}')
    (folder / "sources.json").write_text(json.dumps([{"relation": each, "reads": each} for each in reads]))
    lines = [each if isinstance(each, str) else json.dumps(each) for each in offsets]
    (folder / "offsets" / "0").write_text("\n".join(["v1", "{}", *lines]))
    if done:
        (folder / "commits" / "0").write_text("v1\n{}")


def files(model: StreamModel, place: int, *names: str) -> None:
    log = Path(model.checkpoint) / "sources" / str(place)
    log.mkdir(parents=True)
    for number, name in enumerate(names):
        (log / str(number)).write_text("v1\n" + json.dumps({"path": name, "timestamp": 1, "batchId": number}))


def test_how_far_folders_and_topics_are_read(model: StreamModel, staged: Deployment) -> None:
    new = version(model, staged.new)
    topic, reads = {"t": {"0": 7, "1": 5}}, ["/in", "topic"]
    checkpoint(model, reads, [{"logOffset": 2}, topic])
    files(model, 0, "a", "b", "c")
    with pytest.raises(
        StreamError,
        match=r"its new version lake.*has no checkpoint: it was forgotten since .*`dbt-stream deploy await",
    ):
        behind(SPARK, model, new)
    # Another order, other files in a micro-batch, and one source more.
    checkpoint(new, ["topic", "else", "/in"], [{"t": {"0": 4}}, {"logOffset": 9}, {"logOffset": 0}])
    files(new, 2, "c", "a")
    assert behind(SPARK, model, new) == [Lag("/in", 2, "files"), Lag("topic", 8, "messages")]
    checkpoint(new, ["topic", "else", "/in"], [{"t": {"0": 9, "1": 5}}, {"logOffset": 9}, {"logOffset": 1}])
    (Path(new.checkpoint) / "sources" / "2" / "0").write_text(
        "\n".join(["v1", *(json.dumps({"path": each, "timestamp": 1, "batchId": 0}) for each in "abd")])
    )
    (Path(new.checkpoint) / "sources" / "2" / "1").write_text(
        "v1\n" + json.dumps({"path": "c", "timestamp": 1, "batchId": 1})
    )
    assert behind(SPARK, model, new) == []
    # What is planned and not done has to be done again.
    Path(new.checkpoint, "commits", "0").unlink()
    assert [str(each) for each in behind(SPARK, model, new)] == ["3 files of /in", "12 messages of topic"]


def test_what_an_edited_query_can_not_take_in_is_told_at_once(
    model: StreamModel, staged: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind_by_one(*arguments: Any) -> Any:
        raise StreamError("Model m: its new version has not caught up. `dbt-stream deploy await m` …")

    standing = Standing(staged, version(model, staged.new), model, True, (Lag("/in", 1, "files"),), None)
    environment = SimpleNamespace(session=lambda: None)
    monkeypatch.setattr(deploy, "owned_model", lambda project, name: (model, environment))
    monkeypatch.setattr(deploy, "check_free", lambda model: None)
    monkeypatch.setattr(deploy.promoting, "promote", behind_by_one)
    monkeypatch.setattr(deploy, "_standing", lambda environment, model: standing)
    for edited in (
        None,
        "its query has changed. To rebuild it: `dbt-stream deploy init --full-refresh m`.",
    ):
        monkeypatch.setattr(deploy, "_refused", lambda project, name, standing, edited=edited: edited)
        with pytest.raises(ProjectError) as raised:
            deploy.promote(DbtProject(Path(), Path(), None, None, None), "m", force=False)
        told = deploy.told(deploy.status(DbtProject(Path(), Path(), None, None, None), "m"))
        if edited is None:
            assert "deploy await" in str(raised.value) and "deploy await" in told
        else:
            said = f"the old one has read 1 file of /in more, and the new one can't read them: {edited}"
            assert said in str(raised.value) and said.removeprefix("the old") in told
            assert "deploy await" not in f"{raised.value}{told}"
