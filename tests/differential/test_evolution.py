"""A query is edited while its stream goes on, on DuckDB: aggregates that are kept have all they had, new ones count from the
edit on, as if the query had been written so from the beginning over rows whose columns were NULL before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timezone
from typing import Any
from unittest.mock import patch

import pytest

from dbt.adapters.spark_streaming.query.errors import QueryError
from tests.differential.duck import Laboratory
from tests.differential.evolving import COLUMNS, EDIT, PIECES, Evolving, rows
from tests.evolution import CONFIGS, KEPT, MIGRATED, OPERATORS, REFUSED, Query, configs_of, edits_of, query
from tests.thorough import mostly_thorough

IN_CI = [
    ("cumulate WindowAggregate", "", "several at once"),
    ("tumble WindowTopN of groups", "", "a smaller N"),
    ("GroupAggregate", "few keys", "several at once"),
    ("TopN of rows", "few keys", "a smaller N"),
]
ROW_BY_ROW = {
    "GroupAggregate",
    "GroupAggregate over a LATERAL VIEW",
    "GroupAggregate over IN a table",
    "GroupAggregate over UNION ALL",
}
"""Whose groups are put out when rows of theirs come, as plain GROUP BYs."""
CASES = [
    (operator, config, name)
    for operator in OPERATORS
    for config in configs_of(operator)
    for name, edit in edits_of(operator).items()
    if not edit.config
]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    made = Laboratory()
    for name in ("clicks", "orders"):
        made.put(name, COLUMNS, rows())
    yield made
    made.base.close()


@pytest.mark.parametrize(
    "case", mostly_thorough(CASES, IN_CI), ids=lambda case: ", ".join(filter(None, case))
)
def test_rows_after_an_edit(laboratory: Laboratory, case: tuple[str, str, str]) -> None:
    operator, config, name = case
    old = query(operator)
    new = edits_of(operator)[name].query(old)
    edited = Evolving(laboratory, old.text(), CONFIGS[config])
    edited.take(0, EDIT)
    before, closed = edited.rows(), edited.made.clock.after
    try:
        said = edited.edit(new.text())
    except QueryError:
        said = REFUSED  # as any run of such a query is
    if said == REFUSED:
        pytest.skip("refused; test_evolution_matrix.py says where")
    assert said in (KEPT, MIGRATED)
    edited.take(EDIT, PIECES)
    edited.made.flush()

    begun = frozenset(each for each, text in new.metrics.items() if text not in old.metrics.values())
    if operator == "GroupAggregate over TopN of rows":
        begun = frozenset()  # all of them are made anew from the ranking's rows
    scratch = Evolving(laboratory, replace(new, late=begun).text(), CONFIGS[config])
    scratch.take(0, PIECES)
    scratch.made.flush()
    had_columns = before[0].keys() if before else edited.made.columns
    keys = _keys(new, [name for name in edited.made.columns if name in had_columns])
    found, wanted, had = (_by(each, keys) for each in (edited.rows(), scratch.rows(), before))
    metrics, added = (old.metrics, new.metrics), begun - old.metrics.keys()
    same = [
        name for name in edited.made.columns if metrics[0].get(name) == metrics[1].get(name) or name in added
    ]
    for key in found.keys() | wanted.keys():
        if found.get(key) == wanted.get(key):
            continue
        values = dict(zip(keys, key, strict=True))
        if new.operator == "TopN of rows" and config == "state_ttl" and values["r"] > new.rows:
            # Such rows go when something else of their ranking changes.
            assert found[key] == had[key]
            continue
        # What was put out before and had no reason to be put out again is as it was.
        assert not _is_due(new, values, closed, said), (
            key,
            found.get(key),
            wanted.get(key),
        )
        assert _only(found.get(key, []), same) == _only(had.get(key, []), same), key


def _is_due(new: Query, key: Mapping[str, Any], closed: int | None, said: str) -> bool:
    """Whether rows of a key were put out after the edit; `said`: what became of the state."""
    if "window_end" in key:
        return closed is None or key["window_end"].replace(tzinfo=timezone.utc).timestamp() * 1e6 > closed
    if new.operator == "GroupAggregate over TopN of rows":
        return said == MIGRATED  # made anew; else a group is put out where its ranking changes
    return new.operator not in ROW_BY_ROW or key["k"] != "d"  # which has no rows after it


def _keys(new: Query, columns: list[str]) -> list[str]:
    """What tells rows of the result apart."""
    if " over " in new.operator:
        return columns[:1]
    return [
        each
        for each in columns
        if each in ("window_start", "window_end", "k", "u", "r") and each not in new.metrics
    ]


def _by(found: list[dict[str, Any]], keys: list[str]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    made: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in found:
        plain = {name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()}
        made.setdefault(tuple(row[name] for name in keys), []).append(plain)
    return {key: sorted(rows, key=repr) for key, rows in made.items()}


def _only(found: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in names} for row in found]


def test_another_edit_before_a_ranking_was_made_anew(laboratory: Laboratory) -> None:
    """A run may end between the two: the ranking is found under whatever name its text has by then."""
    old = query("TopN of rows")
    fewer = replace(old, rows=2)
    edited = Evolving(laboratory, old.text(), CONFIGS["few keys"])
    edited.take(0, EDIT)
    with patch.object(Evolving, "_remake"):
        assert edited.edit(fewer.text()) == MIGRATED
        assert edited.edit(replace(fewer, alias="c").text()) == KEPT
    edited._remake(edited.signature.rebuilt_from or ())
    scratch = Evolving(laboratory, fewer.text(), CONFIGS["few keys"])
    scratch.take(0, EDIT)
    assert edited.rows() and sorted(map(repr, edited.rows())) == sorted(map(repr, scratch.rows()))
    with pytest.raises(QueryError, match="the state has yet to be rebuilt after an edit"):
        edited._remake(["top_of_another_members"])


@pytest.mark.parametrize("rank", mostly_thorough(["row_number()", "dense_rank()"], ["row_number()"]))
def test_a_ranking_of_one_row_is_left(laboratory: Laboratory, rank: str) -> None:
    """Its table had several rows of what is the key from now on."""
    old = query("TopN of rows")
    texts = [replace(old, rows=rows).text().replace("row_number()", rank) for rows in (3, 1)]
    edited, scratch = (Evolving(laboratory, text, CONFIGS["few keys"]) for text in texts)
    edited.take(0, EDIT)
    scratch.take(0, EDIT)
    assert edited.edit(texts[1]) == MIGRATED
    for piece in range(EDIT, PIECES + 1):
        found, wanted = (sorted(map(repr, each.rows())) for each in (edited, scratch))
        assert found and found == wanted
        for each in (edited, scratch):
            each.take(piece, min(piece + 1, PIECES))


@pytest.mark.parametrize(
    "above",
    [
        "select n, count(*) as c from ({}) as g group by n",
        pytest.param("select n from ({}) as g", marks=pytest.mark.thorough),
        "select max(n) as most, count(*) as c from ({}) as g",
    ],
)
@pytest.mark.parametrize("aggregate", mostly_thorough(["sum({})", "count(distinct {})"], ["sum({})"]))
def test_an_inner_aggregate_that_is_reworded_begins_anew_with_what_stands_above(
    laboratory: Laboratory, above: str, aggregate: str
) -> None:
    """What was given of it before isn't left there."""
    clicks = "(select /*+ STREAM */ * from clicks)"
    texts = [
        above.format(
            f"select k, {aggregate.format(f'c.{x}')} as n from (select k, v as {x} from {clicks}) as c group by k"
        )
        for x in ("x", "z")
    ]
    edited = Evolving(laboratory, texts[0], CONFIGS["few keys"])
    edited.take(0, EDIT)
    if edited.edit(texts[1]) == REFUSED:
        return
    edited.take(EDIT, PIECES)
    keys = 4
    rows = edited.rows()
    assert sum(row.get("c", 1) for row in rows) == keys
