"""Aggregates as small mergeable state: one table that slices, distinct sets and folding all read.

A metric is kept in *state columns*. For each the table says how it is made from rows, how rows of
state are merged, and what the empty state is worth; `finish` turns merged columns into the value.

Where a column can't be merged by an aggregate of its own (a variance), rows of state are *lifted*
to columns that can, merged, and *lowered* again. A lift may use ``center``: some value of the
first state column, the same for all rows that are merged. Squares of differences to it stay
small, so nothing cancels out (Chan, Golub, LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Aggregate:
    """How one aggregate function is kept. Texts name the arguments ``{0}``, ``{1}``, ``{args}``,
    and state columns ``{n}``, ``{sum}`` … by suffix."""

    make: Mapping[str, str]
    """Suffix of a state column → aggregates over rows, each followed by ``{filter}``."""
    merge: Mapping[str, str]
    """Suffix of a lifted column → aggregate over rows of state."""
    finish: str
    lift: Mapping[str, str] = field(default_factory=dict)
    """Lifted column → expression over a row of state; empty: the state columns themselves."""
    lower: Mapping[str, str] = field(default_factory=dict)
    """State column → expression over merged lifted columns; empty: the same names."""
    undone: frozenset[str] = frozenset()
    """The state columns whose sign is turned where rows are taken away."""

    @property
    def needs_center(self) -> bool:
        """Whether lifting needs a value to measure from."""
        return any("{center}" in text for text in self.lift.values())


def _one(make: str, merge: str, finish: str = "{value}") -> Aggregate:
    return Aggregate({"value": make + "{filter}"}, {"value": merge + "({value})"}, finish)


def _counted(make: str) -> Aggregate:
    return Aggregate(
        {"value": make + "{filter}"},
        {"value": "sum({value})"},
        "coalesce({value}, 0)",
        undone=frozenset({"value"}),
    )


def _moments(finish: str) -> Aggregate:
    deviation = "({mean} - {center})"
    return Aggregate(
        make={
            "mean": "avg(cast({0} as double)){filter}",
            "n": "count(cast({0} as double)){filter}",
            "m2": "var_pop(cast({0} as double)){filter} * count(cast({0} as double)){filter}",
        },
        lift={
            "at": "{center}",
            "n": "{n}",
            "s": f"{{n}} * {deviation}",
            "q": f"{{m2}} + {{n}} * {deviation} * {deviation}",
        },
        merge={"at": "max({at})", "n": "sum({n})", "s": "sum({s})", "q": "sum({q})"},
        lower={
            "mean": "{at} + {s} / nullif({n}, 0)",
            "n": "{n}",
            # Rows that are taken away have less than none of either.
            "m2": "case when {n} < 0 then {q} - {s} * {s} / {n} "
            "else greatest({q} - {s} * {s} / nullif({n}, 0), 0D) end",
        },
        finish=finish,
        undone=frozenset({"n", "m2"}),
    )


_COUNT = _counted("count({args})")
_AVG = Aggregate(
    {"sum": "sum({0}){filter}", "n": "count({0}){filter}"},
    {"sum": "sum({sum})", "n": "sum({n})"},
    "{sum} / nullif({n}, 0)",
    undone=frozenset({"sum", "n"}),
)
_VAR_SAMP = _moments("case when {n} > 1 then {m2} / ({n} - 1) end")
_STD_SAMP = _moments("case when {n} > 1 then sqrt({m2} / ({n} - 1)) end")

MERGEABLE: Mapping[str, Aggregate] = {
    "count": _COUNT,
    "count_if": _counted("count_if({0})"),
    "sum": _one("sum({0})", "sum"),
    "avg": _AVG,
    "mean": _AVG,
    "min": _one("min({0})", "min"),
    "max": _one("max({0})", "max"),
    # Any value is right; the smallest is the same however the input was cut.
    "any_value": _one("min({0})", "min"),
    "bool_and": _one("bool_and({0})", "bool_and"),
    "every": _one("bool_and({0})", "bool_and"),
    "bool_or": _one("bool_or({0})", "bool_or"),
    "some": _one("bool_or({0})", "bool_or"),
    "bit_and": _one("bit_and({0})", "bit_and"),
    "bit_or": _one("bit_or({0})", "bit_or"),
    "bit_xor": _one("bit_xor({0})", "bit_xor"),
    # A struct is ordered by its first field, so ties go to the smaller (larger) value, not to chance.
    "min_by": _one("min(case when {1} is not null then struct({1} as k, {0} as v) end)", "min", "{value}.v"),
    "max_by": _one("max(case when {1} is not null then struct({1} as k, {0} as v) end)", "max", "{value}.v"),
    "variance": _VAR_SAMP,
    "var_samp": _VAR_SAMP,
    "var_pop": _moments("{m2} / nullif({n}, 0)"),
    "stddev": _STD_SAMP,
    "std": _STD_SAMP,
    "stddev_samp": _STD_SAMP,
    "stddev_pop": _moments("sqrt({m2} / nullif({n}, 0))"),
    "approx_count_distinct": _one(
        "hll_sketch_agg(cast({0} as string), 12)",
        "hll_union_agg",
        "coalesce(hll_sketch_estimate({value}), 0)",
    ),
}
"""Spark's name of an aggregate → how it is kept. ``any`` is ``bool_or``, printed so by the dialect."""

DISTINCT: Mapping[str, Aggregate] = {
    # Over the first sight of each value: `{sign}` is +1 where a value is counted and −1 where it was
    # counted before, when an earlier sight of it turns up.
    "count": Aggregate({"value": "sum({sign})"}, {"value": "sum({value})"}, "coalesce({value}, 0)"),
    "sum": Aggregate({"value": "sum({sign} * {0})"}, {"value": "sum({value})"}, "{value}"),
    "avg": Aggregate(
        {"sum": "sum({sign} * {0})", "n": "sum({sign})"},
        {"sum": "sum({sum})", "n": "sum({n})"},
        "{sum} / nullif({n}, 0)",
    ),
}
"""The same for aggregates over DISTINCT values; they share a distinct set per argument."""

RETRACTABLE: Mapping[str, Aggregate] = {
    **{name: kept for name, kept in MERGEABLE.items() if kept.undone},
    # Nothing is not 0: how many values are in it has to be known.
    "sum": Aggregate(
        {"sum": "sum({0}){filter}", "n": "count({0}){filter}"},
        {"sum": "sum({sum})", "n": "sum({n})"},
        "case when {n} > 0 then {sum} end",
        undone=frozenset({"sum", "n"}),
    ),
}
"""Those that rows can be taken away from again, where rows may be. Any other is computed from its values,
of which the state says how often each is there."""

PLAIN_WHEN_DISTINCT = frozenset(
    {"min", "max", "any_value", "bool_and", "bool_or", "every", "some", "bit_and", "bit_or"}
)
"""Functions for which DISTINCT changes nothing."""
