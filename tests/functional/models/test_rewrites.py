"""Rewrites as a user meets them: around a SELECT, as a config, over windows; and a config nobody would follow."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

ROWS = [
    (page, channel, user if user % 7 else "", amount, minute)
    for number in range(60)
    for page, channel, user, amount, minute in [
        (f"p{number % 2}", "ABC"[number % 3], number * number % 11, number % 5, number % 40)
    ]
]
SEED = "page,channel,user_id,amount,ts\n" + "\n".join(
    f"{page},{channel},{user},{amount}.50,2024-03-04 00:{minute:02}:00"
    for page, channel, user, amount, minute in ROWS
)
SEED_TYPES = """
seeds:
  - name: views
    config: {column_types: {user_id: bigint, amount: "decimal(10,2)", ts: timestamp}}
"""
BY_CHANNEL = """
select page, channel, count(*) as n, sum(amount) as total, avg(amount) as mean, count(distinct user_id) as users
from {{ ref('views') }}
where channel in ('A', 'B', 'none')
group by page, channel
having count(*) > 1
"""
BY_PAGE = """
select page, count(distinct user_id) as users, count(distinct channel) as channels, avg(amount) as mean
from {{ ref('views') }} group by page
"""
TOP = """
select * from (
    select *, row_number() over (partition by page order by amount desc) as place from {{ ref('views') }}
) where place <= 3
"""
WINDOW_TOP = """
select * from (
    select *, row_number() over (partition by window_start, window_end order by amount desc) as place
    from {{ tumble(ref('views'), 'ts', '10 minutes') }}
) where place <= 3
"""
BY_HOUR = """
select window_start, window_end, channel, count(distinct user_id) as users, max(amount) as most
from {{ WINDOW }}
where channel in ('A', 'B')
group by window_start, window_end, channel
"""
WINDOWS = {
    "tumble": "tumble(ref('views'), 'ts', '10 minutes')",
    "hop": "hop(ref('views'), 'ts', '5 minutes', '15 minutes')",
    "cumulate": "cumulate(ref('views'), 'ts', '10 minutes', '1 hour')",
}


def table(text: str, **config: Any) -> str:
    settings = "".join(f", {key}={value!r}" for key, value in config.items())
    return f"{{{{ config(materialized='table'{settings}) }}}}\n{text}"


def call(macro: str, text: str) -> str:
    return f"{{% call {macro} %}}\n{text}\n{{% endcall %}}"


def contents(project: Any, name: str) -> tuple[list[Any], list[Any]]:
    relation = f"{project.test_schema}.{name}"
    rows = [tuple(row) for row in project.run_sql(f"select * from {relation}", fetch="all")]
    columns = [tuple(row)[:2] for row in project.run_sql(f"describe {relation}", fetch="all")]
    return sorted(map(str, rows)), columns


def window(name: str) -> str:
    return BY_HOUR.replace("WINDOW", WINDOWS[name])


@pytest.mark.thorough
class TestRewrites:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"views.csv": SEED, "seeds.yml": SEED_TYPES}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        windowed = {f"{name}_hours.sql": table(window(name)) for name in WINDOWS}
        windowed |= {
            f"{name}_hours_{macro}.sql": table(call(f"{macro}()", window(name)))
            for name in WINDOWS
            for macro in ("enum_distinct", "split_distinct")
        }
        incremental = table(BY_CHANNEL, enum_distinct=True).replace("'table'", "'incremental'")
        return {
            "channels.sql": table(BY_CHANNEL),
            "channels_called.sql": table(call("enum_distinct()", BY_CHANNEL)),
            "channels_viewed.sql": call("enum_distinct()", BY_CHANNEL),
            "channels_configured.sql": table(BY_CHANNEL, enum_distinct=True),
            "channels_added.sql": incremental,
            "pages.sql": table(BY_PAGE),
            "pages_called.sql": table(call("split_distinct(buckets=4)", BY_PAGE)),
            "pages_configured.sql": table(BY_PAGE, split_distinct=4),
            "top_called.sql": table(call("split_topn(buckets=4)", TOP)),
            "top_configured.sql": table(TOP, split_topn=4),
            "window_top.sql": table(WINDOW_TOP),
            "window_top_called.sql": table(call("split_topn(buckets=4)", WINDOW_TOP)),
            **windowed,
        }

    def test_same_rows_and_types(self, project: Any) -> None:
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 21
        for name in ("called", "viewed", "configured", "added"):
            assert contents(project, f"channels_{name}") == contents(project, "channels")
        for name in ("called", "configured"):
            assert contents(project, f"pages_{name}") == contents(project, "pages")
        for name in WINDOWS:
            for macro in ("enum_distinct", "split_distinct"):
                assert contents(project, f"{name}_hours_{macro}") == contents(project, f"{name}_hours")
        assert contents(project, "window_top_called") == contents(project, "window_top")
        places, _ = contents(project, "top_called")
        assert len(places) == 6
        assert contents(project, "top_configured") == contents(project, "top_called")

    def test_compile_shows_the_steps(self, project: Any) -> None:
        (compiled,) = run_dbt(["compile", "--select", "channels_called"])
        assert "/* 3. The distinct set: each user_id once for each page, with a bit for each channel. */" in (
            compiled.node.compiled_code
        )


class TestConfigsNobodyWouldFollow:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "seen.sql": "{{ config(materialized='view', enum_distinct=true) }} select 1 as x",
            "inside.sql": "{{ config(materialized='ephemeral', split_topn=8) }} select 1 as x",
            "outside.sql": "{{ config(materialized='table') }} select * from {{ ref('inside') }}",
            "nothing.sql": "{{ config(materialized='table', split_distinct=8) }} select 1 as x",
        }

    def test_each_is_an_error(self, project: Any) -> None:
        said = {result.node.name: str(result.message) for result in run_dbt(["run"], expect_pass=False)}
        assert "Model seen: config 'enum_distinct' works with materialized='table'," in said["seen"]
        assert "Model inside: config 'split_topn' works with materialized='table'," in said["outside"]
        assert "Model nothing: config split_distinct: There is no COUNT(DISTINCT …)" in said["nothing"]
