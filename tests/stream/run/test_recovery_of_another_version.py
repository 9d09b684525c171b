"""A state that another version of the package has made goes on, or the run says that the package is another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.state_signature import VERSION, Signature, from_json, to_json
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.run.recovery import query_problem
from dbt.adapters.spark_streaming.stream.state.table import read_signature
from tests.planned import plan_of

RECORDED = Path(__file__).parent / "recorded" / "signatures-0.1.0.json"
"""Notes of version 0.1.0 for `QUERIES`, which `python -m tests.stream.run.test_recovery_of_another_version` writes."""

S = expansion.expand_stream("events")
_HOURS = expansion.expand_window("events", window_arguments.make_window("tumble", "ts", "1 hour"))
_CURVE = expansion.expand_window(
    "events", window_arguments.make_window("cumulate", "ts", "10 minutes", "1 hour")
)
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
    "recomputed": f"select m, count(*) as c from (select k, percentile(v, 0.5) as m from {S} group by k) group by m",
}


def signature(name: str) -> Signature:
    plan = replace(
        plan_of(QUERIES[name], {"events": RelationInfo(event_time="ts")}, 86_400_000_000), text=name
    )
    made = generate.generate_program(plan, ttl=86_400_000_000)
    fingerprints = None if made.fingerprints is None else made.fingerprints()
    return replace(made.signature, fingerprints=fingerprints, package="0.1.0")


def recorded(name: str) -> Signature:
    return from_json(Signature, json.loads(RECORDED.read_text())["signatures"][name])


@pytest.fixture
def model() -> StreamModel:
    return StreamModel("totals", "db.totals", "db.totals__state", Storage("/nowhere", lambda: None), ())


@pytest.mark.parametrize("name", QUERIES)
def test_a_recorded_state_goes_on(model: StreamModel, name: str) -> None:
    """Where this fails, states that are there don't go on: raise `state_signature.VERSION` and record again."""
    assert json.loads(RECORDED.read_text())["layout"] == VERSION
    had, has = recorded(name), replace(signature(name), package="9.0.0")
    found = evolution(had, has)
    assert found.refused == [] and not found.is_migration
    assert query_problem(model, found, had, has) is None


def properties(layout: int, package: str | None, **others: str) -> dict[str, str]:
    noted = to_json(replace(signature("groups"), package=package))
    return {"stream.version": str(layout), "stream.signature": json.dumps({**noted, **others})}


@pytest.mark.parametrize("package", ["0.1.0", None])
def test_a_state_of_another_layout_is_refused(model: StreamModel, package: str | None) -> None:
    assert read_signature(model, properties(VERSION, package)) == replace(
        signature("groups"), package=package
    )
    before = f"with dbt-spark-streaming {package}" if package else "with that version"
    for earlier in (
        properties(VERSION - 1, package, of_another_shape="x"),
        properties(1, package),
        {"stream.signature": properties(1, package)["stream.signature"]},
        properties(VERSION, package, of_another_shape="x"),
    ):
        with pytest.raises(
            StreamError, match="its state was made by an earlier dbt-spark-streaming"
        ) as refused:
            read_signature(model, earlier)
        assert f"Nothing was changed: {before} it continues as before" in refused.value.msg
        assert refused.value.msg.endswith("To rebuild it: `dbt run --full-refresh --select totals`.")
    with pytest.raises(StreamError, match=r"a newer dbt-spark-streaming \(layout 99.*Update the package"):
        read_signature(model, properties(99, package))


@pytest.mark.parametrize("noted", ["0.1.0", None])
def test_what_the_package_changed_is_no_edit(model: StreamModel, noted: str | None) -> None:
    had, has = replace(recorded("tumble"), package=noted), replace(signature("tumble"), package="9.0.0")
    (operator,) = has.windows
    changed = replace(has, windows=(replace(operator, name="window_of_another_kind"),))
    said = query_problem(model, evolution(had, changed), had, changed)
    assert said is not None
    before = "dbt-spark-streaming 0.1.0" if noted else "an earlier dbt-spark-streaming"
    assert (
        f"its query is unchanged, but its state was made by {before}, and 9.0.0 keeps a different one" in said
    )
    assert f"with {before} it continues as before" in said
    assert "Put the query back" not in said and "changed in what" not in said
    assert "`dbt run --full-refresh --select totals`" in model.rebuild_advice
    assert "`dbt-stream state bootstrap totals --from <table>`" in model.rebuild_advice


def test_a_reason_in_other_words_is_no_edit(model: StreamModel) -> None:
    """Why an operator is recomputed is a sentence of the package, and operators above it aren't rebuilt for it."""
    has = replace(signature("recomputed"), package="9.0.0", fingerprints=None)
    (name,) = (each for each in has.tree.operators if each.startswith("recompute_"))
    reworded = {**has.tree.operators, name: "in the words of another version"}
    had = replace(has, package="0.1.0", tree=replace(has.tree, operators=reworded))
    found = evolution(had, has)
    assert found.refused == [] and not found.is_migration
    assert query_problem(model, found, had, has) is None


def test_an_edit_is_an_edit_whatever_the_package(model: StreamModel) -> None:
    had, has = recorded("groups"), replace(signature("Top-N"), package="9.0.0")
    said = query_problem(model, evolution(had, has), had, has)
    assert said is not None and "its query has changed in what its state depends on" in said


def test_another_event_time_is_no_matter_of_the_package(model: StreamModel) -> None:
    """It is of the source's config, which the text doesn't say."""
    had = replace(recorded("groups"), event_times={"events": "ts"})
    has = replace(signature("groups"), package="9.0.0", event_times={"events": "x"})
    said = query_problem(model, evolution(had, has), had, has)
    assert said is not None and "9.0.0" not in said


if __name__ == "__main__":
    signatures = {name: to_json(signature(name)) for name in QUERIES}
    noted = {"layout": VERSION, "signatures": signatures}
    RECORDED.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")
