"""A new version of a model beside the old one takes over its name, wherever that is cut short, and gives it back."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion
from dbt.adapters.spark_streaming.stream.common import failpoints
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import Retention, StreamSource
from dbt.adapters.spark_streaming.stream.iceberg import maintenance
from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable, load_table
from dbt.adapters.spark_streaming.stream.lifecycle import orphans, promoting
from dbt.adapters.spark_streaming.stream.lifecycle.promoting import (
    SwapResult,
    clean_up,
    promote,
    roll_back,
    stage_deployment,
    swap_progress,
)
from dbt.adapters.spark_streaming.stream.lifecycle.restoring import restore
from dbt.adapters.spark_streaming.stream.progress.report import read_progress
from dbt.adapters.spark_streaming.stream.run.lock import model_lock
from dbt.adapters.spark_streaming.stream.run.runner import RunningStream, reset, run_stream
from dbt.adapters.spark_streaming.stream.run.saving import save
from dbt.adapters.spark_streaming.stream.sink.changelog_retention import COMPACTED_UNTIL
from dbt.adapters.spark_streaming.stream.sources.lag import Lag
from dbt.adapters.spark_streaming.stream.storage import deployments
from dbt.adapters.spark_streaming.stream.storage.deployments import Deployment, version_of_model
from dbt.adapters.spark_streaming.stream.storage.savepoints import stored_savepoints
from tests.planned import plan_of
from tests.thorough import mostly_thorough

from . import programs
from .harness import TUMBLE, Stream, made_for, replayed, sorted_rows
from .programs import SECOND

BY_K = "select k, count(*) as c, sum(v) as s from (select /*+ STREAM */ * from events) group by k"
BY_V = "select v, count(*) as c from (select /*+ STREAM */ * from events) group by v"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage root of its own."""
    return tmp_path


class Deploy:
    """A model whose group key is another one in its new version."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.old = Stream(
            spark,
            root,
            generate.generate_program(plan_of(BY_K)),
            "k string, c bigint, s bigint",
            changelog=True,
        )
        # In full, as dbt's are.
        self.catalog = spark.conf.get("spark.sql.defaultCatalog")
        target = f"{self.catalog}.{self.old.model.target}"
        self.old.model = self.model = replace(self.old.model, target=target, state=f"{target}__state")
        self.program = generate.generate_program(plan_of(BY_V))

    def stage(self, again: bool = False) -> Deployment:
        """Builds the new version, as `deploy init` does."""
        found = stage_deployment(self.spark, self.model, again)
        self.spark.sql(
            f"create table if not exists {found.new} (v bigint, c bigint) using iceberg {made_for(found.new)}"
        )
        self.run_new(found)
        return found

    def run_new(self, found: Deployment) -> None:
        run_stream(self.spark, version_of_model(self.model, found.new), self.program)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Of a query over all events."""
        return sorted_rows(self.spark.sql(re.sub(r"\bevents\b", self.old.events, text)).collect())

    def is_right(self, model: Any, text: str) -> None:
        assert sorted_rows(self.spark.table(model.target).collect()) == self.rows(text)
        assert sorted_rows(replayed(self.spark, model, until=10**9)) == self.rows(text)


def refused(action: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StreamError) as raised:
        action(*arguments)
    return str(raised.value.msg)


def test_the_name_goes_over_and_back(spark: Any, root: Path) -> None:
    deploy = Deploy(spark, root)
    model, old = deploy.model, deploy.old
    old.add((0, "a", 1), (0, "b", 2))
    old.run()
    save(spark, model, "kept")
    found = deploy.stage()
    new, previous = version_of_model(model, found.new), version_of_model(model, found.previous)
    assert deploy.stage() == found, "it goes on with what there is"
    # The old one is served, and goes on, while the new one is built.
    old.add((0, "a", 2))
    old.run()
    assert deploy.rows(BY_K) == old.rows()
    assert [str(each) for each in swap_progress(spark, model).lags or ()] == [f"1 row of {old.events}"]
    said = refused(promote, spark, model)
    assert f"has not caught up: the old one has read 1 row of {old.events} more" in said
    assert f"`dbt-stream deploy await {model.name}`" in said
    deploy.run_new(found)
    assert swap_progress(spark, model).lags == ()
    files = {path for path in root.rglob("*.parquet")}
    with model_lock(spark, model):
        assert "another run of it is in progress" in refused(promote, spark, model)
    with model_lock(spark, new):
        assert f"{new.target}, a version of it, is being written" in refused(promote, spark, model)
    done = promote(spark, model)
    assert {path for path in root.rglob("*.parquet")} == files, "no file of rows is written or copied"
    assert done.deployment.phase == "promoted"
    deploy.is_right(model, BY_V)
    deploy.is_right(previous, BY_K)
    assert not spark.catalog.tableExists(new.target)
    progress = read_progress(model)
    assert progress is not None and "'rows_in': 3," in str(progress["total"])
    assert stored_savepoints(model.storage, model.savepoints) == []

    # The new query goes on, and the old one can't any more.
    old.add((0, "c", 1))
    assert run_stream(spark, model, deploy.program).rows_in == 1
    deploy.is_right(model, BY_V)
    said = refused(old.run)
    assert "the group key" in said and f"`dbt-stream deploy init {model.name}`" in said
    assert "the version before the last deployment is still kept" in refused(
        stage_deployment, spark, model, False
    )
    assert "has the name already" in refused(promote, spark, model)

    # Back: what came meanwhile is read by the old one, whose savepoints are there.
    assert roll_back(spark, model).deployment.phase == "staged"
    assert [each.name for each in stored_savepoints(model.storage, model.savepoints)] == ["kept"]
    assert old.run().rows_in == 1
    deploy.is_right(model, BY_K)
    deploy.is_right(new, BY_V)
    assert "isn't promoted, so there is nothing to roll back" in refused(roll_back, spark, model)
    restore(spark, model, old.program, "kept")
    assert old.run().rows_in == 2
    deploy.is_right(model, BY_K)

    # And forward again, for good.
    promote(spark, model)
    clean_up(spark, model)
    for table in (previous.target, previous.state, previous.changes, new.target):
        assert not spark.catalog.tableExists(table)
    assert not model.storage.exists(previous.checkpoint)
    deploy.is_right(model, BY_V)
    for action in (promote, roll_back, clean_up, swap_progress):
        assert "no new version of it was begun, or it was cleaned up" in refused(action, spark, model)

    # The next new version doesn't lie in the folder of the one that has the name now.
    second = deploy.stage()
    places = [str(IcebergTable(spark, table).java.location()) for table in (model.target, second.new)]
    assert len({*places}) == 2
    old.add((0, "d", 7))
    assert "its query has changed" not in str(run_stream(spark, model, deploy.program))
    clean_up(spark, model)
    deploy.is_right(model, BY_V)


POINTS = [
    "deploy.copy:before",
    "deploy.copy:after",
    "deploy.begin:after",
    "deploy.checkpoint.gives:after",
    "deploy.checkpoint.takes:before",
    "deploy.checkpoint.takes:after",
    "deploy.state.gives:after",
    "deploy.state.takes:after",
    "deploy.changelog.gives:after",
    "deploy.changelog.takes:after",
    "deploy.table.gives:after",
    "deploy.table.takes:after",
    "deploy.end:after",
]


@pytest.mark.parametrize("first", mostly_thorough(range(6), []))
def test_cut_short_anywhere(spark: Any, root: Path, first: int) -> None:
    deploy = Deploy(spark, root)
    model, old = deploy.model, deploy.old
    old.add((0, "a", 1), (0, "b", 2))
    old.run()
    found = deploy.stage()
    new, previous = version_of_model(model, found.new), version_of_model(model, found.previous)
    steps: tuple[tuple[Callable[..., SwapResult], str, Any, str, Any, str], ...] = (
        (promote, "promote", deploy.program, BY_V, previous, BY_K),
        (roll_back, "rollback", old.program, BY_K, new, BY_V),
    )
    for number, point in enumerate(POINTS[first::6]):
        for swap, command, program, text, beside, text_beside in steps:
            failpoints.arm(failpoints.parse(f"raise {point} 1 {model.name}"))
            assert point in refused(swap, spark, model)
            failpoints.arm(None)
            begun = point not in ("deploy.copy:before", "deploy.copy:after", "deploy.end:after")
            if begun:
                sentence = f"`dbt-stream deploy {command} {model.name}` was interrupted"
                assert sentence in refused(run_stream, spark, model, program)
                assert sentence in refused(restore, spark, model, program, "x")
                assert sentence in refused(save, spark, model, "x")
                for act in (reset, clean_up, swap_progress):
                    assert sentence in refused(act, spark, model)
                assert not [
                    each
                    for each in orphans.dropped_models(spark, model.storage, [])
                    if not isinstance(each, str)
                ]
            if begun and number % 2:
                # Undone, it is as if nothing had been; and then done.
                (roll_back if swap is promote else promote)(spark, model)
                deploy.is_right(model, text_beside)
                deploy.is_right(previous if swap is roll_back else new, text)
            if point != "deploy.end:after":
                swap(spark, model)
            deploy.is_right(model, text)
            deploy.is_right(beside, text_beside)
            # Both go on: each has a checkpoint of its own.
            old.add((0, f"k{number}", number))
            assert run_stream(spark, model, program).rows_in >= 1
            other = deploy.program if beside is new else old.program
            run_stream(spark, beside, other)
            deploy.is_right(model, text)
            deploy.is_right(beside, text_beside)


@pytest.mark.parametrize("failing", mostly_thorough((1, 2), [1]))
def test_cut_short_while_a_checkpoint_is_copied(
    spark: Any, root: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a note on whose it is would be taken for somebody else's."""
    deploy = Deploy(spark, root)
    model = deploy.model
    deploy.old.add((0, "a", 1), (0, "b", 2))
    deploy.old.run()
    deploy.stage()
    for swap, undo, text in ((promote, roll_back, BY_V), (roll_back, promote, BY_K)):
        for then in (undo, swap):
            copied = itertools.count(-1)  # the first two copies are those that the swap begins with

            def fails(*_: object, copied: Iterator[int] = copied) -> None:
                if next(copied) == failing:
                    raise StreamError("cut short")

            monkeypatch.setattr(promoting, "copy_savepoints", fails)
            assert "cut short" in refused(swap, spark, model)
            monkeypatch.undo()
            then(spark, model)
        deploy.is_right(model, text)


@pytest.mark.thorough
def test_changelogs_that_are_compacted_meanwhile(
    spark: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "EVERY", 2)
    deploy = Deploy(spark, root)
    old = deploy.old
    old.model = deploy.model = replace(
        deploy.model, retention=Retention(max_snapshots=2), changelog_retention=0
    )
    model = deploy.model

    def more(number: int) -> None:
        old.add((number, "a", 1), (number, "b", 2), (number, f"k{number}", 1))

    def compacted(table: str) -> int:
        return int(IcebergTable(spark, table).property(COMPACTED_UNTIL) or -1)

    more(0)
    old.run()
    text = f"select c, count(*) as keys from {expansion.expand_stream('counts')} group by c"
    down = Stream(
        spark,
        root,
        generate.generate_program(plan_query.plan(text, {"counts": RelationInfo(key=("k",), changes=True)})),
        "c bigint, keys bigint",
    )
    down.reads(StreamSource("counts", model.changes))
    down.run()
    found = deploy.stage()
    previous = version_of_model(model, found.previous)
    for number in range(1, 7):
        more(number)
        old.run()
        deploy.run_new(found)
    new = version_of_model(model, found.new)
    assert compacted(model.changes) > 0 and compacted(new.changes) > 0
    # The reader hasn't read what was compacted, and the changelog that has the name now is another one.
    assert promote(spark, model).readers == (down.model.key,)
    was = down.rows()
    assert f"belongs to another version of {model.name}" in refused(down.run)
    assert down.rows() == was
    for number in range(7, 10):
        more(number)
        run_stream(spark, model, deploy.program)
        deploy.is_right(model, BY_V)
    assert compacted(previous.changes) > 0
    assert roll_back(spark, model).readers == ()
    for number in range(10, 12):
        down.run()
        expected = spark.sql(f"select c, count(*) as keys from {model.target} group by c").collect()
        assert down.rows() == sorted_rows(expected)
        more(number)
        old.run()
    deploy.is_right(model, BY_K)
    # And forward again, where who begins reads what is left of the changes.
    deploy.run_new(found)
    promote(spark, model)
    deploy.is_right(model, BY_V)
    text = f"select c, count(*) as keys from {expansion.expand_stream('values_')} group by c"
    plan = plan_query.plan(text, {"values_": RelationInfo(key=("v",), changes=True)})
    begins = Stream(spark, root, generate.generate_program(plan), "c bigint, keys bigint")
    begins.reads(StreamSource("values_", model.changes))
    begins.run()
    expected = spark.sql(f"select c, count(*) as keys from {model.target} group by c").collect()
    assert begins.rows() == sorted_rows(expected)


@pytest.mark.thorough
def test_who_reads_the_model_notices(spark: Any, root: Path) -> None:
    deploy = Deploy(spark, root)
    model, old = deploy.model, deploy.old
    old.add((0, "a", 1), (0, "b", 2))
    old.run()
    text = f"select c, count(*) as keys from {expansion.expand_stream('counts')} group by c"
    plan = plan_query.plan(text, {"counts": RelationInfo(key=("k",), changes=True)})
    down = Stream(spark, root, generate.generate_program(plan), "c bigint, keys bigint")
    down.reads(StreamSource("counts", model.changes))
    down.run()
    found = deploy.stage()
    with RunningStream(spark, replace(down.model, trigger="300 milliseconds"), down.program) as running:
        running.wait(1)
        assert promote(spark, model).readers == (down.model.key,)
        with pytest.raises(StreamError, match=r"was replaced while it ran|belongs to another version"):
            while True:
                running.wait(2)
    was = down.rows()
    said = refused(down.run)
    assert (
        f"the table {model.changes} that it streams from belongs to another version of {model.name}" in said
    )
    assert f"`dbt-stream deploy init {down.model.name}`" in said
    assert f"`dbt-stream deploy rollback {model.name}`" in said
    assert down.rows() == was
    # Back, it goes on as if nothing had been.
    assert roll_back(spark, model).readers == ()
    old.add((0, "a", 1), (0, "c", 1))
    old.run()
    down.run()
    counts = sorted_rows(spark.sql(f"select c, count(*) as keys from {model.target} group by c").collect())
    assert down.rows() == counts
    # One that has read the new version since is told how to have it again.
    deploy.run_new(found)
    promote(spark, model)
    down.reset()
    spark.sql(f"delete from {down.model.target}")
    clean_up(spark, model)
    assert deployments.read_deployment(model.storage, model.target) is None


@pytest.mark.thorough
def test_what_can_not_be_deployed(spark: Any, root: Path) -> None:
    deploy = Deploy(spark, root)
    model, old = deploy.model, deploy.old
    for action in (promote, roll_back, clean_up, swap_progress):
        said = refused(action, spark, model)
        assert f"`dbt-stream deploy init {model.name}` builds one next to the old one" in said
    elsewhere = replace(model, target=f"{model.target}_none")
    assert "it has no table yet" in refused(stage_deployment, spark, elsewhere, False)
    old.add((0, "a", 1))
    old.run()
    found = stage_deployment(spark, model, False)
    new = version_of_model(model, found.new)
    assert "its new version has no table yet" in refused(promote, spark, model)
    assert not swap_progress(spark, model).begun
    spark.sql(f"create table {found.new} (v bigint, c bigint) using iceberg {made_for(found.new)}")
    assert "it has read nothing yet" in refused(promote, spark, model)
    deploy.run_new(found)
    # It is of one query.
    more = generate.generate_program(plan_of(BY_V.replace("c from", "c, sum(x) as sx from")))
    said = refused(run_stream, spark, new, more)
    assert "the new version of a model that is being deployed is of one query" in said
    assert f"`dbt-stream deploy init --full-refresh {model.name}`" in said
    assert deploy.stage(again=True) == found
    deploy.is_right(new, BY_V)
    # The old one may be broken: then nobody knows, and its author may.
    old.forget_checkpoint()
    said = refused(promote, spark, model)
    assert "whether its new version has caught up is unknown" in said and "--force" in said
    assert (
        f"its old version {model.target} has no checkpoint: it was forgotten since (`dbt-stream reset" in said
    )
    assert f"`dbt run --select {model.name}` has it begin" in said
    promote(spark, model, force=True)
    deploy.is_right(model, BY_V)
    said = refused(roll_back, spark, model)
    assert "its version before the deployment can't continue" in said and "checkpoint" in said
    clean_up(spark, model)
    deploy.is_right(model, BY_V)


@pytest.mark.thorough
def test_rows_that_are_gone_meanwhile(spark: Any, root: Path) -> None:
    """The old version can't go on where its source has lost what it has not read."""
    tumbled = Stream(spark, root, programs.tumble(SECOND), TUMBLE)
    model = tumbled.model
    tumbled.add((0, "a", 1), (1500, "a", 1))
    tumbled.run()
    found = stage_deployment(spark, model, False)
    spark.sql(f"create table {found.new} ({TUMBLE}) using iceberg {made_for(found.new)}")
    longer = programs.tumble(2 * SECOND)
    run_stream(spark, version_of_model(model, found.new), longer)
    promote(spark, model)
    tumbled.add((4500, "a", 1))
    assert run_stream(spark, model, longer).rows_out == 1
    assert tumbled.rows() == [(0, 2000, "a", 2, 2)]
    spark.sql(f"drop table {tumbled.events}")
    said = refused(roll_back, spark, model)
    assert f"the table {tumbled.events} that {found.previous} streamed from was rebuilt since" in said
    # Cut short, it is done again.
    for point in ("deploy.drop:before", "deploy.forget:before"):
        failpoints.arm(failpoints.parse(f"raise {point} 1 {model.name}"))
        assert point in refused(clean_up, spark, model)
    failpoints.arm(None)
    clean_up(spark, model)
    assert not spark.catalog.tableExists(found.previous)
    assert tumbled.rows() == [(0, 2000, "a", 2, 2)]


@pytest.mark.thorough
def test_files_of_a_version_whose_names_were_given_to_others(spark: Any, root: Path) -> None:
    """A state that is made anew under the model's name lies in the folder of the old version's."""
    deploy = Deploy(spark, root)
    model = deploy.model
    deploy.old.add((0, "a", 1), (1500, "b", 1))
    run_stream(spark, model, deploy.old.program)
    found = deploy.stage()
    promote(spark, model)
    # As a --full-refresh does.
    reset(spark, model)
    spark.sql(f"create or replace table {model.target} (v bigint, c bigint) using iceberg")
    run_stream(spark, model, deploy.program)
    previous = load_table(spark, version_of_model(model, found.previous).state)
    assert previous is not None and previous.folder == getattr(load_table(spark, model.state), "folder", None)
    orphans.orphans_of_model(spark, model, (time.time_ns() // 1_000_000) + 1, remove=True)
    roll_back(spark, model)
    deploy.old.add((2000, "a", 1))
    run_stream(spark, model, deploy.old.program)
    deploy.is_right(model, BY_K)


@pytest.mark.thorough
def test_models_that_read_each_other_are_deployed_in_order(spark: Any, root: Path) -> None:
    """Upstream first: its new version has rows of its own, and those that the old downstream has read are in the old one."""
    catalog = spark.conf.get("spark.sql.defaultCatalog")

    def in_full(stream: Stream) -> Stream:
        target = f"{catalog}.{stream.model.target}"
        stream.model = replace(stream.model, target=target, state=f"{target}__state")
        return stream

    columns = "ts timestamp, k string, v bigint"
    up = in_full(Stream(spark, root, programs.pass_through(), columns))
    up.program = replace(up.program, output="select ts, k, v from stream")
    down = in_full(Stream(spark, root, programs.pass_through(), columns))
    down.program = up.program
    down.reads(StreamSource("events", up.model.target))
    up.add((0, "a", 1), (1500, "b", 2))
    up.run()
    down.run()

    def staged(stream: Stream) -> Any:
        found = stage_deployment(spark, stream.model, False)
        spark.sql(f"create table if not exists {found.new} ({columns}) using iceberg {made_for(found.new)}")
        return version_of_model(stream.model, found.new)

    run_stream(spark, staged(up), up.program)
    promote(spark, up.model)
    new = staged(down)
    run_stream(spark, new, down.program)
    up.add((2500, "c", 3))
    up.run()
    # The old one can't read on; the new one has not read all that is there.
    assert swap_progress(spark, down.model).lags == (Lag(up.model.target, 1, "rows"),)
    assert "it has not caught up" in refused(promote, spark, down.model).replace(
        "its new version has", "it has"
    )
    run_stream(spark, new, down.program)
    assert swap_progress(spark, down.model).lags == ()
    promote(spark, down.model)
    assert [row[1] for row in down.rows()] == ["a", "b", "c"]
