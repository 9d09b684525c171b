"""What a user gets wrong, and the sentence that says so: it names the model and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.models.conftest import sources

GOOD = (
    "select window_start, window_end, count(*) as n from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }} "
    "group by 1, 2"
)
BY_PAGE = "select page, count(*) as n from {{ stream(source('raw', 'events')) }} group by page"
FIRST = (
    "select * from (select *, row_number() over (partition by device order by ts) as rn "
    "from {{ stream(source('raw', 'events')) }}) where rn = 1"
)
HOUR = "'1 hour'"


def streaming(query: str, materialized: str = "streaming_table", **config: Any) -> str:
    settings = "".join(f", {key}={value!r}" for key, value in config.items())
    return f"{{{{ config(materialized='{materialized}'{settings}) }}}}\n{query}"


BAD = {
    "unknown_column": (
        streaming(GOOD.replace("count(*)", "sum(amuont)")),
        ["`amuont`", "cannot be resolved"],
    ),
    "unknown_config": (
        streaming(GOOD, watermrk="5 seconds"),
        ["Model unknown_config: config 'watermrk' is unknown for a streaming model", "watermark"],
    ),
    "config_to_come": (
        streaming(GOOD, split_topn=128),
        ["Model config_to_come: config split_topn: There is no filter on a ROW_NUMBER()"],
    ),
    "ttl_of_windows": (
        streaming(GOOD, state_ttl="1 day"),
        ["Model ttl_of_windows: config 'state_ttl' is for queries without windows"],
    ),
    "ttl_that_is_no_interval": (
        streaming(BY_PAGE, state_ttl="a while"),
        ["Model ttl_that_is_no_interval: config 'state_ttl': 'a while'"],
    ),
    "state_without_bounds": (
        streaming(BY_PAGE),
        [
            "Model state_without_bounds: The state of this query grows without bound",
            "constant_domains: ['page']",
            "WHERE ts >= CURRENT_TIMESTAMP() - INTERVAL '7' DAY GROUP BY page",
        ],
    ),
    "append_of_groups": (
        streaming(BY_PAGE, constant_domains=["page"], output_mode="append"),
        ["Model append_of_groups: config 'output_mode' is 'append', but the rows of this query change"],
    ),
    "upsert_of_final_rows": (
        streaming(FIRST, constant_domains=["device"], output_mode="upsert"),
        ["Model upsert_of_final_rows: config 'output_mode' is 'upsert', but this query never changes"],
    ),
    "early_results_without_windows": (
        streaming(BY_PAGE, constant_domains=["page"], first_result_offset="-5 minutes"),
        [
            "Model early_results_without_windows: config 'first_result_offset' is about windows, and this query has no"
        ],
    ),
    "late_results_of_rows_that_pass": (
        streaming("select * from {{ stream(source('raw', 'events')) }}", complete_result_offset="5 minutes"),
        [
            "Model late_results_of_rows_that_pass: config 'complete_result_offset' is about windows that are kept until"
        ],
    ),
    "a_clock_that_is_none": (
        streaming(GOOD.replace("group by", "where date(ts) = current_date() group by")),
        [
            "Model a_clock_that_is_none: 'CAST(ts AS DATE) = CURRENT_DATE' compares event time with CURRENT_DATE. In"
        ],
    ),
    "domains_that_are_no_list": (
        streaming(BY_PAGE, constant_domains="page"),
        ["Model domains_that_are_no_list: config 'constant_domains' is 'page'; write a list of columns"],
    ),
    "key_of_final_rows": (
        streaming(GOOD, unique_key="page"),
        ["Model key_of_final_rows: config 'unique_key' says which row an update replaces, and this query"],
    ),
    "key_of_no_column": (
        streaming(BY_PAGE, constant_domains=["page"], unique_key="nope"),
        [
            "Model key_of_no_column: config 'unique_key' names nope, which the query doesn't give; it gives page, n."
        ],
    ),
    "strategy_of_incremental_models": (
        streaming(GOOD, incremental_strategy="merge"),
        ["Model strategy_of_incremental_models: config 'incremental_strategy' is for incremental models"],
    ),
    "key_that_is_not_unique": (
        streaming(BY_PAGE, constant_domains=["page"], unique_key="n"),
        ["Model key_that_is_not_unique: two rows of its result have the same key (n "],
    ),
    "rank_without_an_end": (
        streaming(FIRST.replace("where rn = 1", ""), constant_domains=["device"]),
        [
            "Model rank_without_an_end: 'ROW_NUMBER() OVER (PARTITION BY device ORDER BY ts)' ranks all rows that ever"
        ],
    ),
    "append_with_early_results": (
        streaming(GOOD, output_mode="append", first_result_offset="-5 minutes"),
        [
            "Model append_with_early_results: config 'output_mode' is 'append', but early firing",
            "write 'upsert'",
        ],
    ),
    "offsets_that_contradict": (
        streaming(GOOD, first_result_offset="5 minutes", complete_result_offset="1 minute"),
        [
            "Model offsets_that_contradict: config first_result_offset '5 minutes' is not before "
            "complete_result_offset '1 minute'"
        ],
    ),
    "changes_without_a_key": (
        streaming(
            GOOD.replace("group by 1, 2", "group by 1, 2, page"),
            output_mode="upsert",
        ),
        [
            "Model changes_without_a_key: Results that change need to find the rows they replace: put page into"
        ],
    ),
    "no_such_zone": (
        streaming(GOOD.replace("'1 hour')", "'1 hour', time_zone='Europe/Berln')")),
        [
            "model no_such_zone",
            "tumble(): time_zone 'Europe/Berln' is unknown; write a name of the IANA database",
        ],
    ),
    "gap_shorter_than_step": (
        streaming(
            "select window_start, window_end, count(*) as n "
            "from {{ dynamic_cumulate(source('raw', 'events'), 'ts', '5 minutes', '1 minute') }} group by 1, 2"
        ),
        ["dynamic_cumulate(): gap '1 minute' is shorter than step '5 minutes'"],
    ),
    "join_across_windows": (
        streaming(f"select a.n from ({GOOD}) as a join ({GOOD}) as b on a.n = b.n"),
        [
            "Model join_across_windows: The join with 'b' compares rows of different windows",
            "ON a.window_start = b.window_start AND a.window_end = b.window_end",
        ],
    ),
    "rank_across_windows": (
        streaming(
            "select * from (select *, row_number() over (partition by page order by ts) as rn "
            "from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}) where rn <= 3"
        ),
        [
            "Model rank_across_windows:",
            "ranks rows of different windows together; write PARTITION BY window_start",
        ],
    ),
    "no_rank": (
        streaming(GOOD, "topn"),
        [
            "Model no_rank: materialized='topn' asks for a filter on ROW_NUMBER(), RANK() or DENSE_RANK(), found a "
            "GROUP BY over tumble(); use materialized='streaming_table'."
        ],
    ),
    "rank_without_end": (
        streaming(
            "select * from (select *, row_number() over (partition by window_start, window_end order by amount) as rn "
            "from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}) where rn > 3",
            "topn",
        ),
        ["Model rank_without_end: 'rn > 3' sets no upper bound to the rank rn; add rn <= N."],
    ),
    "bad_watermark": (
        streaming(GOOD, watermark="a while"),
        ["Model bad_watermark: config 'watermark': 'a while' is not an interval; write for example"],
    ),
    "bad_step": (
        streaming(
            GOOD.replace(
                "tumble(source('raw', 'events'), 'ts', '1 hour')",
                "cumulate(source('raw', 'events'), 'ts', '7 minutes', '1 hour')",
            )
        ),
        ["model bad_step", "cumulate(): max_size '1 hour' is not a multiple of step '7 minutes'"],
    ),
    "bad_offset": (
        streaming(GOOD.replace("'1 hour')", "'1 hour', offset='later')")),
        ["model bad_offset", "tumble(): offset 'later' is not an interval"],
    ),
    "not_an_aggregate": (
        streaming("select * from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}", "window_aggregate"),
        [
            "Model not_an_aggregate: materialized='window_aggregate' asks for a GROUP BY over a windowing table "
            "function, found rows of a windowing table function that nothing groups or ranks; use "
            "materialized='streaming_table'.",
        ],
    ),
    "not_cumulate": (
        streaming(GOOD, "cumulate"),
        ["asks for a GROUP BY over cumulate() or dynamic_cumulate(), found a GROUP BY over tumble()"],
    ),
    "no_stream": (
        streaming("select page from {{ source('raw', 'events') }}"),
        [
            "Model no_stream: The query reads no stream; wrap a relation of its FROM in a windowing table function"
        ],
    ),
    "no_folder": (
        streaming(GOOD.replace("'events'", "'gone'")),
        ["Source raw.gone: there is no folder", "/no/such/folder"],
    ),
    "not_parquet": (
        streaming(GOOD.replace("'events'", "'text'")),
        ["Model not_parquet: of its source raw.text the file", "can't be read as parquet", "source's format"],
    ),
    "other_type": (
        streaming("select ts, amount from {{ stream(source('raw', 'doubles')) }}"),
        [
            "Model other_type: of its source raw.doubles the file",
            "has the column amount as DOUBLE, and it is to be read as INT.",
        ],
    ),
    "other_type_in_batch": (
        "{{ config(materialized='table') }} select ts, amount from {{ source('raw', 'doubles') }}",
        [
            "The file",
            "has the column amount as DOUBLE, and it is to be read as INT. Correct the type in the source's",
        ],
    ),
    "time_is_text": (
        streaming(GOOD.replace("'ts'", "'page'")),
        ["Model time_is_text: the event time page is a STRING and must be a TIMESTAMP", "to_timestamp(page)"],
    ),
    "not_a_stream": (
        streaming(GOOD.replace("source('raw', 'events')", "ref('a_view')")),
        ["Model not_a_stream", "a_view", "can't be read as a stream"],
    ),
    "distinct_over": (
        streaming(
            "select window_start, window_end, count(distinct page) over (partition by window_start, window_end) as n "
            "from {{ tumble(source('raw', 'events'), 'ts', '1 hour') }}"
        ),
        ["Distinct window functions are not supported"],
    ),
}


class TestBadInput:
    @pytest.fixture(scope="class")
    def models(self, spark: Any, events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        doubles = tmp_path_factory.mktemp("doubles")
        spark.sql("select timestamp'2024-03-04' as ts, 1.5d as amount").write.parquet(str(doubles / "a"))
        text = tmp_path_factory.mktemp("text")
        (text / "events.parquet").write_text("not what it says it is")
        others = f"""
      - name: doubles
        config:
          meta:
            stream: {{format: parquet, options: {{path: "{doubles}/*"}}, schema: "ts timestamp, amount int"}}
      - name: gone
        config: {{meta: {{stream: {{format: parquet, options: {{path: /no/such/folder}}}}}}}}
      - name: text
        config:
          meta:
            stream: {{format: parquet, options: {{path: "{text}"}}, schema: "ts timestamp, page string"}}
"""
        files = {f"{name}.sql": text for name, (text, _) in BAD.items()}
        view = "{{ config(materialized='view') }} select * from {{ source('raw', 'events') }}"
        return {**files, "a_view.sql": view, "sources.yml": sources(events) + others}

    @pytest.fixture(scope="class")
    def messages(self, project: Any) -> dict[str, str]:
        results = run_dbt(["run"], expect_pass=False)
        return {result.node.name: str(result.message) for result in results}

    @pytest.mark.parametrize("name", BAD)
    def test_a_sentence(self, messages: dict[str, str], name: str) -> None:
        for part in BAD[name][1]:
            assert part in messages[name]
        assert "\tat " not in messages[name], "a Java stack trace"
        assert "Traceback" not in messages[name]

    @pytest.mark.parametrize("name", BAD)
    def test_nothing_is_half_written(self, project: Any, messages: dict[str, str], name: str) -> None:
        tables = {row[1] for row in project.run_sql(f"show tables in {project.test_schema}", fetch="all")}
        if name == "key_that_is_not_unique":
            # Told by the results, which are made from the state: that is there, and a next run says the same.
            assert project.run_sql(f"select count(*) from {project.test_schema}.{name}", fetch="one")[0] == 0
        else:
            assert f"{name}__state" not in tables
