"""New versions beside old ones as they are noted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import (
    PROMOTED,
    STAGED,
    Deployment,
    Swap,
    tables_being_swapped,
    version_of_model,
)
from dbt.adapters.spark_streaming.stream.storage.savepoints import check_not_interrupted


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


@pytest.fixture
def staged(model: StreamModel) -> Deployment:
    made = deployments.new_deployment(model, "u")
    deployments.write_deployment(model.storage, made)
    return made


def test_what_is_noted_is_read(model: StreamModel, staged: Deployment) -> None:
    storage = model.storage
    assert deployments.read_deployment(storage, model.target) == staged
    assert (staged.other_table, staged.phase) == (f"lake.db.m__deploy_{staged.id}", STAGED)
    promoted = replace(staged, phase=PROMOTED, promoted=1)
    assert promoted.other_table == f"lake.db.m__previous_{staged.id}"
    swapping = replace(promoted, swap=Swap(STAGED, {"table": "a"}, {"table": None}))
    deployments.write_deployment(storage, swapping)
    assert deployments.read_deployment(storage, model.target) == swapping
    deployments.delete_deployment(storage, swapping)
    assert deployments.read_deployment(storage, model.target) is None
    assert storage.list(storage.deployments) == []


def test_what_can_not_be_read(model: StreamModel, staged: Deployment) -> None:
    file = Path(deployments.deployment_folder(model.storage, model.target)) / "deployment.json"
    noted = file.read_text()
    file.write_text(noted.replace('"format": 1', '"format": 2'))
    with pytest.raises(StreamError, match=r"begun by a newer dbt-spark-streaming \(its format is 2"):
        deployments.read_deployment(model.storage, model.target)
    file.write_text("{")
    with pytest.raises(StreamError, match=r"deployment\.json can't be read"):
        deployments.read_deployment(model.storage, model.target)


def test_a_promotion_that_was_cut_short(model: StreamModel, staged: Deployment) -> None:
    check_not_interrupted(model)
    assert deployments.tables_being_swapped(model.storage) == set()
    for to, command, back in ((PROMOTED, "promote", "rollback"), (STAGED, "rollback", "promote")):
        deployments.write_deployment(model.storage, replace(staged, swap=Swap(to, {}, {})))
        with pytest.raises(StreamError) as raised:
            check_not_interrupted(model)
        assert raised.value.msg == (
            f"Model m: `dbt-stream deploy {command} m` was interrupted, so its table, its state and its checkpoint may be "
            f"of two versions. To finish it: `dbt-stream deploy {command} m`. To undo it: `dbt-stream deploy {back} m`."
        )
        assert deployments.tables_being_swapped(model.storage) == {"lake.db.m", staged.new, staged.previous}


def test_commands_are_those_of_the_version(model: StreamModel, staged: Deployment) -> None:
    new = version_of_model(model, staged.new)
    assert (
        model.is_deployment_version,
        new.is_deployment_version,
        version_of_model(model, staged.previous).is_deployment_version,
    ) == (False, True, True)
    assert new.state == f"{staged.new}__state"
    assert new.rebuild == "`dbt-stream deploy init --full-refresh m`"
    assert new.rebuild_advice == f"To rebuild it: {new.rebuild}."
    assert model.rebuild_advice == (
        "To rebuild it: `dbt run --full-refresh --select m`; or next to the old version, which stays until the new one "
        "has caught up: `dbt-stream deploy init m`; or with a table that has the rows so far: `dbt-stream state "
        "bootstrap m --from <table>`."
    )
    assert len({model.checkpoint, new.checkpoint, version_of_model(model, staged.previous).checkpoint}) == 3


def test_readers_are_told_of_a_model_that_was_promoted_once(model: StreamModel, staged: Deployment) -> None:
    storage = model.storage
    assert deployments.deployment_of_table(storage, model.target) is None
    promoted = replace(staged, phase=PROMOTED, promoted=1)
    deployments.write_deployment(storage, promoted)
    for table in (model.target, model.changes):
        assert deployments.deployment_of_table(storage, table) == promoted
    assert deployments.deployment_of_table(storage, "lake.db.other") is None


def test_files_of_others_stay_when_a_deployment_ends(model: StreamModel, staged: Deployment) -> None:
    storage, place = model.storage, deployments.deployment_folder(model.storage, model.target)
    storage.write_text(f"{deployments.copies_folder(storage, model.target)}/new/checkpoint/metadata", "{}")
    storage.write_text(f"{place}/notes.txt", "of a user")
    deployments.delete_deployment(storage, staged)
    assert storage.list(place) == ["notes.txt"]
    storage.delete(f"{place}/notes.txt")
    deployments.delete_deployment(storage, staged)
    assert storage.list(storage.deployments) == []


def test_two_processes_that_begin_at_once_begin_the_same_deployment(model: StreamModel) -> None:
    """The file of one would be overwritten else, and nothing would name its tables."""
    one, other = (deployments.new_deployment(model, "uuid of the table") for _ in range(2))
    assert (one.new, one.previous) == (other.new, other.previous)
    assert deployments.new_deployment(model, "uuid of the next one").id != one.id


def test_tables_of_a_swap_that_can_not_be_read_are_unknown(model: StreamModel, staged: Deployment) -> None:
    """Of a table that is missing for the time of a rename, state and checkpoint would be taken for leftovers."""
    storage = model.storage
    assert tables_being_swapped(storage) == set()
    deployments.write_deployment(storage, replace(staged, swap=Swap(PROMOTED, {}, {})))
    assert tables_being_swapped(storage) == {model.target, staged.new, staged.previous}
    file = Path(deployments.deployment_folder(storage, model.target)) / "deployment.json"
    noted = file.read_text()
    for unread in (noted.replace('"format": 1', '"format": 2').replace('"swap"', '"swaps"'), "{"):
        file.write_text(unread)
        with pytest.raises(StreamError, match=r"newer dbt-spark-streaming|can't be read"):
            tables_being_swapped(storage)
