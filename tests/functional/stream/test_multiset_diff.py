"""Rows of two queries are compared as multisets: values that are the same whatever their order or last digits."""

from __future__ import annotations

from typing import Any

from dbt.adapters.spark_streaming.stream.sink.multiset_diff import Difference, compare


def test_values_that_are_the_same(spark: Any) -> None:
    def rows(*values: str) -> Any:
        return spark.sql(f"select * from values {', '.join(values)} as t(d, f, m, s)").withColumnRenamed(
            "s", "a.b"
        )

    ours = rows(
        "(0.1D + 0.2D + 0.3D, float(0.1) * 3, map('a', 1, 'b', 2), 'x')",
        "(-0.0D, float('nan'), null, null)",
        "(double('nan'), float(-0.0), map(), 'x')",
        "(double('infinity'), null, map(), 'x')",
        "(1D, null, map(), 'x')",
        "(1D, null, map(), 'x')",
    )
    theirs = rows(
        "(0.3D + 0.2D + 0.1D, float(0.3), map('b', 2, 'a', 1), 'x')",
        "(0.0D, float('nan'), null, null)",
        "(double('nan'), float(0.0), map(), 'x')",
        "(double('-infinity'), null, map(), 'x')",
        "(1D, null, map(), 'x')",
        "(1.00001D, null, map(), 'x')",
    )
    assert compare(ours, ours, 5) == Difference(6, 6, 6)
    found = compare(ours, theirs, 5)
    assert (found.ours, found.theirs, found.equal) == (6, 6, 4)
    assert sorted(row["d"] for row in found.only_ours) == ["1.0", "Infinity"]
    assert sorted(row["d"] for row in found.only_theirs) == ["-Infinity", "1.00001"]
    assert found.only_ours[0]["a.b"] == "x"
    assert len(compare(ours, ours.limit(0), 5).only_ours) == 5
    nested = [
        spark.sql(f"select parse_json('{text}') as v, array(map(1, n)) as a from values (1), (1) as t(n)")
        for text in ('{"b": [1, null], "a": 1}', '{"a":1,"b":[1,null]}', '{"a":2}')
    ]
    assert compare(nested[0], nested[1], 5) == Difference(2, 2, 2)
    assert compare(nested[0], nested[2], 5).only_theirs == [{"v": '{"a":2}', "a": "[{1 -> 1}]"}] * 2


def test_numbers_within_other_values(spark: Any) -> None:
    """Sums differ in their last digits wherever they stand."""

    def rows(tenth: str) -> Any:
        sums = f"{tenth} + 0.2D", f"{tenth} + 0.3D"
        return spark.sql(
            f"select array({sums[0]}, null) as a, named_struct('n', {sums[0]}, 's', 'x') as s, map('k', {sums[1]}) as m, "
            f"array(named_struct('m', {sums[0]}, 'at', array({sums[1]}))) as n, "
            "cast(null as struct<n: double>) as none, array(1, 2) as plain "
            "union all select null, null, null, null, named_struct('n', cast(null as double)), null"
        )

    assert spark.sql("select 0.1D + 0.2D <> 0.1000000000000001D + 0.2D").first()[0]
    assert compare(rows("0.1D"), rows("0.1000000000000001D"), 5) == Difference(2, 2, 2)
    found = compare(rows("0.1D"), rows("0.1001D"), 5)
    assert found.equal == 1 and len(found.only_ours) == 1
    assert compare(rows("0.1D").select("none"), rows("0.1D").select("none").limit(1), 5).equal == 1
