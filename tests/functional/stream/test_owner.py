"""Files under the storage root belong to one table of one catalog: what a session doesn't see isn't gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.iceberg import owner
from dbt.adapters.spark_streaming.stream.lifecycle import orphans
from dbt.adapters.spark_streaming.stream.lifecycle.orphans import DroppedModel
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import clean_up, stage_deployment
from dbt.adapters.spark_streaming.stream.run.runner import reset, run_stream
from dbt.adapters.spark_streaming.stream.run.saving import delete, save

from . import programs
from .harness import SCHEMA, TUMBLE, Stream, made_for
from .programs import SECOND

_CATALOG = "spark.sql.catalog"


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Stream:
    """One with a state, a savepoint, and a storage root of its own; named in full, as dbt's are."""
    made = Stream(spark, tmp_path / "root", programs.tumble(SECOND), TUMBLE)
    target = f"{spark.conf.get('spark.sql.defaultCatalog')}.{made.model.target}"
    made.model = replace(made.model, target=target, state=f"{target}__state")
    made.add((0, "a", 1), (1500, "a", 2))
    made.run()
    save(spark, made.model, "kept")
    return made


def session_of(spark: Any, **options: str) -> Any:
    """A session in which the catalog of the same name has other options."""
    session = spark.newSession()
    for option, value in options.items():
        session.conf.set(f"{_CATALOG}.{spark.conf.get('spark.sql.defaultCatalog')}.{option}", value)
    return session


def elsewhere(spark: Any, folder: Path, stream: Stream) -> Any:
    """A session of another target: another catalog of the same name, with the same schema and a table of the same name."""
    folder.mkdir(exist_ok=True)
    session = session_of(spark, uri=f"jdbc:sqlite:{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    session.sql(f"create namespace if not exists {SCHEMA}")
    return session


def files(stream: Stream) -> set[str]:
    root = Path(stream.model.storage.root)
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and "locks" not in path.parts
    }


def refused(action: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StreamError) as problem:
        action(*arguments)
    return problem.value.msg


def goes_on(stream: Stream) -> None:
    stream.add((3500, "a", 3))
    assert stream.run().rows_in == 1
    assert [row[2:] for row in stream.rows()] == [("a", 1, 1), ("a", 1, 2)]


def test_a_second_target_of_one_storage_root_leaves_the_first_alone(
    spark: Any, stream: Stream, tmp_path: Path
) -> None:
    model = stream.model
    other = elsewhere(spark, tmp_path / "other", stream)
    before = files(stream)
    # Where the table isn't there yet, as before a first run, and where it is.
    for made in (False, True):
        if made:
            other.sql(f"create table {model.target} ({TUMBLE}) using iceberg {made_for(model.target)}")
        for said in (
            refused(reset, other, model),
            refused(run_stream, other, model, stream.program),
            refused(save, other, model, "more"),
            refused(delete, other, model, "kept"),
            refused(stage_deployment, other, model, False),
            refused(clean_up, other, model),
            refused(orphans.orphans_of_model, other, model, 2**60, True),
        ):
            assert f"belong to the table {model.target} of another catalog" in said
            assert "<storage_root>" not in said or "catalog.db" in said
            assert "Give each target its own 'storage_root' in the profile" in said
        found = list(orphans.dropped_models(other, model.storage, [f"{model.target.split('.')[0]}.{SCHEMA}"]))
        assert [each for each in found if f"{model.target}: it is in another catalog" in str(each)]
        assert not [each for each in found if isinstance(each, DroppedModel)]
    assert files(stream) == before
    goes_on(stream)


def test_one_table_that_is_reached_in_another_way(spark: Any, stream: Stream) -> None:
    name = stream.model.target.split(".")[0]
    uri = spark.conf.get(f"{_CATALOG}.{name}.uri")
    moved = session_of(spark, uri=f"{uri}{'&' if '?' in uri else '?'}busy_timeout=9000")
    stream.add((3500, "a", 3))
    assert run_stream(moved, stream.model, stream.program).rows_in == 1
    noted = owner.read_owner(stream.model.storage, stream.model.key)
    assert noted is not None and noted.catalog["uri"].endswith("busy_timeout=9000")
    assert [row[2:] for row in stream.rows()] == [("a", 1, 1), ("a", 1, 2)]
    stream.run()


def test_gone_is_what_the_catalog_says(spark: Any, stream: Stream) -> None:
    model = stream.model
    schema = ".".join(model.target.split(".")[:-1])

    def look(in_session: Any = spark) -> list[Any]:
        # State tables of other tests may be there, too.
        found = orphans.dropped_models(in_session, model.storage, [schema])
        return [
            each for each in found if model.target in (each if isinstance(each, str) else each.model.target)
        ]

    assert look() == []
    hidden = replace(model, target=model.target.replace(SCHEMA, "hidden"))
    owner.claim(spark, hidden)
    shutil.copytree(model.checkpoint, hidden.checkpoint)
    (told,) = [each for each in orphans.dropped_models(spark, model.storage, []) if "hidden" in str(each)]
    assert isinstance(told, str) and "there is no schema" in told and "left alone" in told
    unknown = replace(model, target=model.target.replace(SCHEMA, "unknown"))
    shutil.copytree(model.checkpoint, unknown.checkpoint)
    (told,) = [each for each in orphans.dropped_models(spark, model.storage, []) if "unknown" in str(each)]
    assert "says which table its files" in str(told)
    assert "there is a folder" in refused(reset, spark, unknown)
    assert Path(unknown.checkpoint).exists()
    broken = session_of(spark, **{"catalog-impl": "org.apache.iceberg.NoSuchCatalog"})
    assert [each for each in look(broken) if isinstance(each, DroppedModel)] == []
    # By hand, with its files or without.
    spark.sql(f"drop table {model.target} purge")
    (gone,) = look()
    assert gone.left == (model.state, model.checkpoint, model.savepoints)
    reset(spark, gone.model)
    assert look() == [] and not spark.catalog.tableExists(model.state)
    assert owner.read_owner(model.storage, model.key) is None


def test_a_folder_of_two_tables(spark: Any, stream: Stream, tmp_path: Path) -> None:
    """Two catalogs of one warehouse give tables of one name the same folder."""
    model = stream.model
    (tmp_path / "other").mkdir()
    other = session_of(spark, uri=f"jdbc:sqlite:{tmp_path}/other/catalog.db")
    other.sql(f"create namespace if not exists {SCHEMA}")
    other.sql(f"create table {model.target} ({TUMBLE}) using iceberg {made_for(model.target)}")
    other.sql(f"insert into {model.target} select timestamp_millis(0), timestamp_millis(1), 'x', 1L, 1L")
    found = orphans.orphans_of_model(spark, model, 2**60, True)
    assert model.target in found.left_alone[0] and "has metadata of another table" in found.left_alone[0]
    assert [row.k for row in other.table(model.target).collect()] == ["x"]
    goes_on(stream)
