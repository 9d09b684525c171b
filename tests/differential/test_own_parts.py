"""The differential test's own parts: random queries, what makes them smaller, how rows are compared."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import sqlglot

from tests.differential import tables
from tests.differential.generate import Generator
from tests.differential.outcome import compare, plain
from tests.differential.planning import reason
from tests.differential.shrink import fewer_rows, shrink, smaller_cases
from tests.differential.tables import DELAY, PIECES, STREAMS, Tables, cuts
from tests.differential.tree import (
    ROWS,
    TABLE,
    Case,
    Expr,
    Group,
    Invalid,
    Item,
    Model,
    Node,
    Rank,
    Select,
    Stream,
    depth,
    nodes,
)

SEEDS = range(250)


def test_the_same_seed_makes_the_same_query_and_rows() -> None:
    assert [Generator(seed).case() for seed in range(5)] == [Generator(seed).case() for seed in range(5)]
    # By their texts: NaN isn't equal to itself.
    assert repr(tables.make(3)) == repr(tables.make(3)) != repr(tables.make(4))


def test_queries_have_every_part_of_the_grammar() -> None:
    cases = [Generator(seed).case() for seed in SEEDS]
    found: Counter[str] = Counter()
    for case in cases:
        for model in (case.model, case.upstream):
            for node in nodes(model.root) if model else ():
                found[type(node).__name__] += 1
        found.update(name for name, _ in case.model.config)
        found["upstream"] += case.upstream is not None
        found[case.model.root.form] += 1
    wanted = {kind.__name__ for kind in _kinds(Node)} - {"Written"}
    wanted |= {
        "changelog",
        "state_ttl",
        "constant_domains",
        "first_result_offset",
        "late_updates",
        "split_topn",
    }
    wanted |= {"upstream", "rows", "table", "result", "windowed", "enum_distinct", "split_distinct"}
    assert wanted <= set(found)
    assert max(depth(case.model.root) for case in cases) >= 6


def _kinds(of: type[Node]) -> set[type[Node]]:
    return {kind for sub in of.__subclasses__() for kind in (sub, *_kinds(sub))}


@pytest.mark.parametrize("seed", range(0, 250, 10))
def test_texts_parse_and_name_each_column_once(seed: int) -> None:
    case = Generator(seed).case()
    for text in (case.model.text(), case.model.expected()):
        tree = sqlglot.parse_one(text, read="spark")
        assert tree.named_selects == [column.name for column in case.model.root.columns]  # type: ignore[attr-defined]


def test_no_row_is_later_than_the_watermark_allows() -> None:
    for seed in range(10):
        for pieces in tables.make(seed).streams.values():
            newest = None
            for ts in (row[0] for piece in pieces for row in piece if row[0] is not None):
                newest = max(newest or ts, ts)
                # Times are rounded up to half minutes.
                assert (newest - ts).total_seconds() <= DELAY.total_seconds() + 30


def test_cuts_cover_all_pieces() -> None:
    for count in range(1, PIECES + 1):
        found = cuts(count)
        assert (found[0][0], found[-1][1], len(found)) == (0, PIECES, count)
        assert all(one[1] == other[0] for one, other in pairwise(found))


def _ranked() -> Case:
    seeds = (Generator(seed).case() for seed in range(1000))
    return next(
        case
        for case in seeds
        if case.upstream is None
        and case.model.root.form == TABLE
        and any(isinstance(node, Rank) and node.input.form == ROWS for node in nodes(case.model.root))
        and depth(case.model.root) > 4
    )


def test_shrinking_leaves_what_goes_wrong_and_little_else() -> None:
    def goes_wrong(case: Case, rows: Tables) -> bool:
        ranks = any(isinstance(node, Rank) for node in nodes(case.model.root))
        return ranks and any(row[1] == "b" for piece in rows.streams["clicks"] for row in piece)

    case, rows = _ranked(), tables.make(0)
    assert goes_wrong(case, rows)
    small, few = shrink(case, rows, goes_wrong, tries=1000)
    assert depth(small.model.root) == 2
    assert (small.cuts, small.model.config) == (1, ())
    assert few.rows() == 1


def test_smaller_cases_have_a_meaning_and_are_others() -> None:
    for seed in range(40):
        case = Generator(seed).case()
        for other in smaller_cases(case):
            other.check()
            assert other != case


def test_fewer_rows_are_always_fewer() -> None:
    rows = tables.make(1)
    assert all(other.rows() < rows.rows() for other in fewer_rows(rows))


def test_a_query_that_mixes_windows_has_no_meaning() -> None:
    stream = Stream("clicks", STREAMS["clicks"])
    unknown = Select(stream, (Item(Expr("nope", "bigint", frozenset({"nope"})), "nope"),))
    with pytest.raises(Invalid, match="no column nope"):
        Case(Model(unknown)).check()
    twice = Group(stream, (Item(Expr.of(stream.column("k")), "k"),), (Item(Expr("count(*)", "bigint"), "k"),))
    with pytest.raises(Invalid, match="columns"):
        Case(Model(twice)).check()


def test_rows_are_compared_as_bags() -> None:
    one, two = Counter({("a", 1): 2}), Counter({("a", 1): 1, ("b", 1): 1})
    assert compare(one, one) == ""
    assert compare(one, two).splitlines() == [
        "2 rows expected, 2 found",
        "missing: 1",
        "  ('a', 1)",
        "too much: 1",
        "  ('b', 1)",
    ]
    assert plain(float("nan")) == plain(float("nan"))
    assert plain(0.1 + 0.2) == plain(0.3) != plain(0.4)


def test_refusals_are_counted_by_their_reason() -> None:
    sentence = "Model m: '{}' over a stream must be UNION ALL of streams; found `{}`."
    one, other = sentence.format("a", "select 1"), sentence.format("b", "select 1 where 'x'")
    assert reason(one) == reason(other) == "… over a stream must be UNION ALL of streams; found …."
