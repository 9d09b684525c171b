"""What a model's rewrite configs ask of its text, and which mean nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.spark_streaming.methods.rewrites import RewriteMethods
from dbt.adapters.spark_streaming.query.rewrites import rewriting


def model(**config: Any) -> SimpleNamespace:
    config = {"materialized": "table", **config}
    language = config.pop("language", "sql")
    return SimpleNamespace(name="m", config=config, language=language, depends_on_nodes=["model.p.below"])


class Adapter(RewriteMethods):
    """The methods, with a manifest."""

    def __init__(self, below: SimpleNamespace | None = None) -> None:
        self._macro_resolver = SimpleNamespace(nodes={"model.p.below": below} if below else {})


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (model(enum_distinct=3), "Model m: config 'enum_distinct' is 3; write true or false."),
        (
            model(split_topn=True),
            "Model m: config 'split_topn' is True; write the number of buckets, as in split_topn: 128, or false.",
        ),
        (
            model(enum_distinct=True, materialized="view"),
            "Model m: config 'enum_distinct' works with materialized='table', 'incremental' and streaming models, found "
            "'view'. Put the SELECT into {% call enum_distinct() %} … {% endcall %} instead.",
        ),
        (model(split_distinct=8, language="python"), "Model m: config 'split_distinct' is for SQL"),
    ],
)
def test_no_config_is_passed_over(node: SimpleNamespace, sentence: str) -> None:
    with pytest.raises(CompilationError) as refusal:
        Adapter().check_rewrite_configs(node)
    assert sentence in str(refusal.value)
    if node.config["materialized"] == "view":
        with pytest.raises(CompilationError):
            Adapter(below=model(materialized="ephemeral", split_topn=8)).check_rewrite_configs(model())


@pytest.mark.parametrize("off", [None, False])
def test_a_config_that_is_off_changes_nothing(off: object) -> None:
    config = dict.fromkeys(rewriting.REWRITES, off)
    Adapter().check_rewrite_configs(model(materialized="view", **config))
    assert rewriting.rewrite_by_config("select 1", config) == "select 1"


def test_a_config_that_can_not_be_followed_says_why() -> None:
    node = {"name": "m", "resource_type": "model", "config": {"split_distinct": 8}}
    with pytest.raises(CompilationError) as refusal:
        Adapter().rewrite_by_config("select 1 as x", node)
    assert "Model m: config split_distinct: There is no COUNT(DISTINCT …)" in str(refusal.value)


def test_configs_are_followed_together() -> None:
    config = {"split_distinct": 8, "split_topn": 4}
    text = """select * from (
        select c, count(distinct u) as n, rank() over (order by count(distinct u) desc) as r from t group by c
    ) where r <= 3"""
    made = rewriting.rewrite_by_config(text, config)
    assert "split_buckets" in made
    assert "topn_buckets" in made
