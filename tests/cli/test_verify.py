"""`dbt-stream verify` takes one model, or a selection of them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_streaming.cli import verify
from dbt.adapters.spark_streaming.cli.commands import main
from dbt.adapters.spark_streaming.cli.planned import Query
from dbt.adapters.spark_streaming.cli.project import DbtProject
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.windows import expansion
from dbt.adapters.spark_streaming.sources import source_tables, stream_source


def test_models_are_named_or_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DbtProject, "selected_names", lambda *_: ["a", "b"])
    monkeypatch.setattr(verify, "verify_model", lambda _, name: {"model": name, "equal": name == "a"})
    monkeypatch.setattr(verify, "print_verified", lambda found: print(found["model"]))
    for arguments, output, code in (
        (["a"], "a", 0),
        (["a", "b"], "a b", 1),
        (["-s", "tag:x", "+b"], "a b", 1),
        (["--exclude", "c"], "a b", 1),
        (["b", "--json"], '{ "model": "b", "equal": false }', 1),
        (["-s", "x", "--json"], '[ { "model": "a", "equal": true }, { "model": "b", "equal": false } ]', 1),
    ):
        done = CliRunner().invoke(main, ["verify", *arguments])
        assert (" ".join(done.output.split()), done.exit_code) == (output, code), arguments
    for arguments in ([], ["a", "-s", "b"]):
        done = CliRunner().invoke(main, ["verify", *arguments])
        assert "Name models, or select models with --select." in done.output
        assert done.exit_code == 2


def test_static_tables_are_named_as_in_the_project() -> None:
    relation = source_tables.table_name(source_tables.schema_name("raw", "shops", {}), "shops")
    stream_source.register(stream_source.DeclaredSource("raw.shops", relation, "json", {"path": "/in"}))
    text = (
        f"select o.id from {expansion.expand_stream('shop.orders')} as o join {relation} as s on s.id = o.id"
    )
    node = {"name": "m", "alias": "m", "config": {"materialized": "streaming_table"}}
    query = Query(node, {}, plan_query.plan(text), lambda _: ())
    assert "dbt_source" in query.plan.static[0]
    assert verify._verify_request(query, is_append=True).static == ["raw.shops"]
