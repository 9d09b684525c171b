"""What statements over a state make of it, and which aren't taken."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.state_edit import StateEdit, parse_state_edit


@pytest.mark.parametrize(
    ("statement", "rows", "more"),
    [
        (
            "delete from state as s where s.k in (select k from csv.`/a`)",
            "SELECT s.* FROM state AS s WHERE NOT COALESCE((s.k IN (SELECT k FROM csv.`/a`)), FALSE)",
            None,
        ),
        ("update state s set s.n = 1", "SELECT s.* EXCEPT (n), 1 AS n FROM state AS s", None),
        (
            "update STATE set n = n + 1, m = null where n > 1",
            "SELECT STATE.* EXCEPT (n, m), CASE WHEN n > 1 THEN n + 1 ELSE n END AS n, "
            "CASE WHEN n > 1 THEN NULL ELSE m END AS m FROM STATE",
            None,
        ),
        ("insert into state select * from new_rows", "SELECT * FROM state", "SELECT * FROM new_rows"),
        (
            "insert into state (part, k) select 'p', k from other",
            "SELECT * FROM state",
            "SELECT * FROM (SELECT 'p', k FROM other) AS new(part, k)",
        ),
        ("select * from state where a", "SELECT * FROM state WHERE a", None),
    ],
)
def test_what_a_state_is_to_be(statement: str, rows: str, more: str | None) -> None:
    assert parse_state_edit(statement) == StateEdit(rows, more)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("drop table state", "--sql is a DROP. Write DELETE FROM state WHERE …"),
        ("delete from orders where true", "--sql changes orders; the state is called state here"),
        ("delete from db.state where true", "--sql changes db.state"),
        ("delete from state", "DELETE without WHERE would leave no state"),
        ("insert into state values (1)", "Name the columns of the values"),
        ("insert overwrite state select 1", "INSERT OVERWRITE would leave nothing else of the state"),
        ("select 1; select 2", "--sql has 2 statements, and takes one"),
        ("", "--sql has 0 statements"),
        ("delete from state where", "--sql doesn't parse"),
        ("update state set (a, b) = (1, 2)", "sets no column"),
    ],
)
def test_what_is_not_taken(statement: str, said: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse_state_edit(statement)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE state JOIN new_rows USING (k) SET n = 1",
        "INSERT INTO state REPLACE WHERE part = 'x' SELECT * FROM t",
        "INSERT INTO state PARTITION (part = 'a') SELECT * FROM t",
        "DELETE FROM state TABLESAMPLE (10 PERCENT) WHERE k = 1",
        "WITH f AS (SELECT 1 AS k) DELETE FROM state WHERE k IN (SELECT k FROM f)",
        "WITH f AS (SELECT 1 AS k) INSERT INTO state SELECT * FROM f",
        "WITH f AS (SELECT 1 AS k) UPDATE state SET n = 1 WHERE k IN (SELECT k FROM f)",
        "DELETE state WHERE k = 1",
    ],
)
def test_what_would_not_be_carried_over_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"Write DELETE FROM state WHERE"):
        parse_state_edit(text)
