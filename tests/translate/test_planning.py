# ruff: noqa: E501
"""What translated models need to be planned, and models that can't be."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.translate.project import translate

TABLES = """CREATE TABLE a (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE sink (k STRING, n BIGINT, PRIMARY KEY ({}) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
"""
TUMBLED = "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end"


@pytest.mark.parametrize(
    ("query", "ttl", "config"),
    [
        ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", "", "constant_domains=['k'])"),
        ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", "1 d", "state_ttl='1 day')"),
        ("SELECT x.k FROM a AS x JOIN a AS y ON x.k = y.k", "", "state_ttl='7 days')"),
        ("SELECT x.k FROM a AS x JOIN a AS y ON x.k = y.k", "0 s", "state_ttl='7 days')"),
        ("SELECT k FROM a", "1 d", "materialized='streaming_table')"),
        (
            "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end",
            "1 d",
            "materialized='streaming_table')",
        ),
    ],
)
def test_the_state_is_bounded(query: str, ttl: str, config: str) -> None:
    setting = f"SET 'table.exec.state.ttl' = '{ttl}';" if ttl else ""
    made = translate(f"{TABLES.format('k')} {setting} {query};", "x")
    assert config in made.files["models/query_1.sql"].partition("\n")[0]


@pytest.mark.parametrize(
    ("key", "query", "said"),
    [
        ("k", "SELECT k, COUNT(*) FROM a GROUP BY k", None),
        ("n", "SELECT k, COUNT(*) FROM a GROUP BY k", "are replaced by k, its PRIMARY KEY is (n)"),
        ("k", "SELECT k, id FROM a", "are added and never replaced"),
        ("k, n", f"SELECT k, MAX(id) {TUMBLED}, k", "are added and never replaced"),
        (
            "n",
            f"SELECT k, UNIX_TIMESTAMP(CAST(window_end AS STRING)) {TUMBLED}, k",
            "are added and never replaced",
        ),
    ],
)
def test_a_primary_key_that_rows_are_not_replaced_by(key: str, query: str, said: str | None) -> None:
    made = translate(f"{TABLES.format(key)} INSERT INTO sink {query};", "x")
    found = [note.text for note in made.notes if "replaced" in note.text]
    assert (said in found[0]) if said else not found


@pytest.mark.parametrize(
    ("window", "column", "is_said"),
    [
        ("TUMBLE", "window_start", False),
        ("CUMULATE", "window_start", True),
        ("CUMULATE", "window_end", False),
    ],
)
def test_a_primary_key_that_each_window_has_once(window: str, column: str, is_said: bool) -> None:
    steps = "INTERVAL '1' HOUR, INTERVAL '1' DAY" if window == "CUMULATE" else "INTERVAL '1' HOUR"
    made = translate(
        f"""{TABLES.format("k")}
CREATE TABLE report (k STRING, at TIMESTAMP(3), n BIGINT, PRIMARY KEY (k, at) NOT ENFORCED) WITH ('connector' = 'jdbc');
INSERT INTO report SELECT k, {column}, COUNT(*) FROM TABLE({window}(TABLE a, DESCRIPTOR(ts), {steps}))
GROUP BY k, window_start, window_end;""",
        "x",
    )
    assert any("never replaced" in note.text for note in made.notes) == is_said


def test_keys_of_tables_that_change_bound_a_join_of_them() -> None:
    made = translate(
        """CREATE TABLE o (order_id INT, product INT, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector' = 'mysql-cdc');
CREATE TABLE p (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'mysql-cdc');
SELECT o.order_id, p.name FROM o LEFT JOIN p ON o.product = p.id;""",
        "x",
    )
    config = made.files["models/query_1.sql"].partition("\n")[0]
    assert "constant_domains=['id', 'order_id']" in config


def test_a_model_that_cannot_be_planned_is_disabled_with_what_reads_it() -> None:
    made = translate(
        f"""{TABLES.format("k")} INSERT INTO p SELECT id, RANK() OVER (PARTITION BY k ORDER BY RAND()) AS r FROM a;
INSERT INTO q SELECT id FROM p;""",
        "x",
    )
    assert "p can't be kept up to date as it is" in "\n".join(map(str, made.notes))
    assert all("enabled=false" in made.files[f"models/{name}.sql"] for name in "pq")
