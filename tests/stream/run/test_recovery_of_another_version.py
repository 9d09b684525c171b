"""A state that another version of the package has made goes on, or the run says that the package is another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.evolution.compare import PACKAGE
from dbt.adapters.spark_streaming.stream.evolution.match_parts import ALIKE
from dbt.adapters.spark_streaming.stream.run.recovery import query_problem, what_becomes
from tests.planned import plan_of

RECORDED = Path(__file__).parent / "recorded" / "signatures-0.1.0.json"
"""Notes of version 0.1.0 for `QUERIES`, which `python -m tests.stream.run.test_recovery_of_another_version` writes."""

S = expansion.expand_stream("events")
_HOURS = expansion.expand("events", window_arguments.make("tumble", "ts", "1 hour"))
_CURVE = expansion.expand("events", window_arguments.make("cumulate", "ts", "10 minutes", "1 hour"))
QUERIES = {
    "tumble": f"select window_start, window_end, k, count(*) as n, sum(v) as s from {_HOURS} group by all",
    "cumulate": f"select window_start, window_end, count(distinct x) as d from {_CURVE} group by window_start, window_end",
    "rows of windows": f"select * from {_HOURS} where v > 1",
    "ranking of a window": (
        "select * from (select *, row_number() over (partition by window_start, window_end order by v desc) as place "
        f"from {_HOURS}) where place <= 3"
    ),
    "groups": f"select k, count(*) as n, count(distinct x) as d, max(v) as m from {S} group by k",
    "Top-N": (
        f"select * from (select *, row_number() over (partition by k order by v desc) as place from {S}) where place <= 2"
    ),
    "Top-N of groups": f"select k, count(*) as n from {S} group by k order by n desc limit 3",
    "deduplication": (
        f"select * from (select *, row_number() over (partition by k order by ts desc) as place from {S}) where place = 1"
    ),
    "join": f"select a.k, a.v, b.v as w from {S} as a join {S} as b on a.k = b.k",
    "left join": f"select a.k, a.v, b.v as w from {S} as a left join {S} as b on a.k = b.k",
    "exists": f"select a.k from {S} as a where exists (select 1 from {S} as b where b.k = a.k and b.v > 3)",
    "union": f"select k, count(*) as n from (select k from {S} union all select k from {S}) group by k",
    "except": f"select k from {S} except select x from {S}",
}


def signature(name: str) -> dict[str, Any]:
    plan = replace(plan_of(QUERIES[name], {"events": Known(event_time="ts")}, 86_400_000_000), text=name)
    made = generate.program(plan, ttl=86_400_000_000)
    alike = {} if made.alike is None else {ALIKE: made.alike()}
    found: dict[str, Any] = json.loads(json.dumps({**made.signature, **alike, PACKAGE: "0.1.0"}))
    return found


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())[name]
    return found


@pytest.fixture
def model() -> StreamModel:
    return StreamModel("totals", "db.totals", "db.totals__state", Storage("/nowhere", lambda: None), ())


@pytest.mark.parametrize("name", QUERIES)
def test_a_recorded_state_goes_on(model: StreamModel, name: str) -> None:
    """Where this fails, states that are there don't go on. Read the old signature too, or raise `signature.VERSION`, keep
    the old file and record another one beside it."""
    had, has = recorded(name), {**signature(name), PACKAGE: "9.0.0"}
    found = what_becomes(had, has)
    assert found.refused == [] and not found.is_migration
    assert query_problem(model, found, had, has) is None


@pytest.mark.parametrize("name", ["tumble", "groups", "join"])
@pytest.mark.parametrize("noted", ["0.1.0", None])
def test_what_the_package_changed_is_no_edit(model: StreamModel, name: str, noted: str | None) -> None:
    had, has = recorded(name), {**signature(name), PACKAGE: "9.0.0"}
    if noted is None:
        del had[PACKAGE]
    for changed in ({**has, "version": 3}, {**has, "of_another_shape": True}):
        said = query_problem(model, what_becomes(had, changed), had, changed)
        assert said is not None
        before = "dbt-spark-streaming 0.1.0" if noted else "an earlier dbt-spark-streaming"
        assert (
            f"its query is unchanged, but its state was made by {before}, and 9.0.0 keeps a different one"
            in said
        )
        assert f"with {before} it continues as before" in said
        assert "Put the query back" not in said and "changed in what" not in said
    assert "`dbt run --full-refresh --select totals`" in model.build_anew
    assert "`dbt-stream state bootstrap totals --from <table>`" in model.build_anew


def test_an_edit_is_an_edit_whatever_the_package(model: StreamModel) -> None:
    had, has = recorded("groups"), {**signature("Top-N"), PACKAGE: "9.0.0"}
    said = query_problem(model, what_becomes(had, has), had, has)
    assert said is not None and "its query has changed in what its state depends on" in said


def test_another_event_time_is_no_matter_of_the_package(model: StreamModel) -> None:
    """It is of the source's config, which the text doesn't say."""
    had, has = recorded("groups"), {**signature("groups"), PACKAGE: "9.0.0"}
    had, has = {**had, "event_times": {"events": "ts"}}, {**has, "event_times": {"events": "x"}}
    said = query_problem(model, what_becomes(had, has), had, has)
    assert said is not None and "9.0.0" not in said


if __name__ == "__main__":
    RECORDED.write_text(
        json.dumps({name: signature(name) for name in QUERIES}, indent=1, sort_keys=True) + "\n"
    )
