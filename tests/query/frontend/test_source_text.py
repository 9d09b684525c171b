"""Which edits of what is under a GROUP BY leave its rows what they were."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dbt.adapters.spark_streaming.query.frontend.source_text import SourceText
from dbt.adapters.spark_streaming.query.sql.dialect import parse


def reads(source: str, *columns: str) -> str:
    select = parse(f"select 1 from {source}")
    assert isinstance(select, exp.Select)
    return SourceText(select).rows_text(columns)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t", "T as x"),
        ("t as a where a.v > 0", "t where V > 0"),
        ("(select k, v from t) as a", "(select k, v, w, w + 1 as z from t as s) as b"),
        ("(select * from t as a where a.x = 1) as b", "(select *, v * 2 as twice from t where x = 1)"),
        ("t as a join u as b on a.i = b.i", "t as x join u as y on x.i = y.i"),
        ("t join u on t.i = u.i", "t as x join u on x.i = u.i"),
        (
            "t as a where exists (select 1 from u as b where b.i = a.i)",
            "t as b where exists (select 1 from u as c where c.i = b.i)",
        ),
        (
            "(select a.k, b.v from t as a join u as b using (i)) as c",
            "(select x.k, y.v, y.w from t x join u y using (i))",
        ),
    ],
)
def test_the_same_rows(one: str, other: str) -> None:
    assert reads(one, "k", "v") == reads(other, "k", "v")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t", "u"),
        ("t where v > 0", "t where v > 1"),
        ("(select k, v from t) as a", "(select k, v + 1 as v from t) as a"),
        ("(select k, v from t) as a", "(select distinct k, v, w from t) as a"),
        ("(select k, v from t) as a", "(select k, v, explode(w) as e from t) as a"),
        ("(select k, v from t) as a", "(select k, v, w from t limit 10) as a"),
        (
            "(select k, v from t union all select k, v from u)",
            "(select k, v from u union all select k, v from t)",
        ),
        # The names turned round: what is compared is something else.
        ("t as a join u as b on a.i = b.j", "t as b join u as a on a.i = b.j"),
        ("t as a join u as b on a.i = b.i where a.x = 1", "t as b join u as a on a.i = b.i where a.x = 1"),
        (
            "t as a join u as b on a.i = b.i where exists (select 1 from w as c where c.x = a.x)",
            "t as b join u as a on a.i = b.i where exists (select 1 from w as c where c.x = a.x)",
        ),
        (
            "t as a join u as b on a.i = b.i where exists (select 1 from w lateral view explode(e) l as x where x = a.x)",
            "t as b join u as a on a.i = b.i where exists (select 1 from w lateral view explode(e) l as x where x = a.x)",
        ),
        ("t as a lateral view explode(e) l as v", "t as a lateral view explode(f) l as v"),
        ("(select k, v from t join u using (i))", "(select k, v from t join u using (j))"),
        (
            "(select k, v from t natural join (select i, w from u) as n)",
            "(select k, v from t natural join (select i from u) as n)",
        ),
    ],
)
def test_other_rows(one: str, other: str) -> None:
    assert reads(one, "k", "v") != reads(other, "k", "v")


def test_an_alias_within_hides_one_without() -> None:
    text = "t as a join u as b on a.i = b.i where exists (select 1 from w as a where a.x = b.x)"
    assert reads(text) == reads(
        "t as p join u as q on p.i = q.i where exists (select 1 from w as a where a.x = q.x)"
    )
    assert reads(text) != reads(
        "t as p join u as q on p.i = q.i where exists (select 1 from w as a where p.x = q.x)"
    )


def test_expressions() -> None:
    def text(source: str, expression: str) -> str:
        select = parse(f"select {expression} from {source}")
        assert isinstance(select, exp.Select)
        return SourceText(select).expression_text(select.expressions[0])

    assert text("t as a", "sum(a.V)") == text("t", "SUM( v )") == "SUM(v)"
    both = "t as a join u as b on a.i = b.i"
    assert text(both, "sum(a.v)") == text("t as x join u as y on x.i = y.i", "sum(x.v)")
    assert text(both, "sum(a.v)") != text(both, "sum(b.v)") != text(both, "sum(v)")
    # A field of a struct isn't a column of a relation.
    assert text("t as a", "sum(s.v)") == "SUM(s.v)"
