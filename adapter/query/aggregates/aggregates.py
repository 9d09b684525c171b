"""Table of the aggregate functions that are stored as partial aggregates.

A metric is stored in *state columns*. The table has SQL that makes each from rows, that merges state rows, and, in
`finish`, that computes the value from merged columns.

Where no SQL aggregate merges a column (a variance), state rows are *lifted* to columns that can be merged, and
*lowered* again. A lift may use ``center``: some value of the first state column, equal for all merged rows. Squared
differences to it stay small, so nothing cancels out (Chan, Golub, LeVeque 1983).

A sum and an average have the types that Spark gives them, and overflow as in Spark, so their state depends on `Types`,
which a session provides. A decimal sum that overflowed is NULL although there are values, and stays NULL when merged. If
values can be retracted, NaN and the infinities are counted apart from the finite sum, because they can't be subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Types:
    """Spark's types of a call over one argument."""

    result: str
    sum: str
    """Type of SUM over the argument."""
    quotient: str
    """Type of that sum divided by a count."""
    argument: str

    @property
    def divides_exactly(self) -> bool:
        """Whether an average equals the quotient of sum and count to its last digit."""
        needed, given = _digits(self.result), _digits(self.quotient)
        if needed is None or given is None:
            return True
        return needed[0] <= given[0] and needed[1] <= given[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Returns the digits of a decimal type before and after the point. None if it isn't a decimal."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    return precision - scale, scale


@dataclass(frozen=True)
class Aggregate:
    """State and SQL of one aggregate function. Texts name the arguments ``{0}``, ``{1}``, ``{args}``, and state
    columns by suffix: ``{n}``, ``{sum}``, …."""

    make: Mapping[str, str]
    """Suffix of a state column → aggregates over rows, each followed by ``{filter}``."""
    merge: Mapping[str, str]
    """Suffix of a lifted column → aggregate over state rows."""
    finish: str
    lift: Mapping[str, str] = field(default_factory=dict)
    """Lifted column → expression over a state row. Empty if state columns merge directly."""
    lower: Mapping[str, str] = field(default_factory=dict)
    """State column → expression over merged lifted columns. Empty if the names are equal."""
    undone: frozenset[str] = frozenset()
    """State columns that are negated for retractions."""

    @property
    def needs_center(self) -> bool:
        """Whether lifting needs ``center``."""
        return any("{center}" in text for text in self.lift.values())


def _one_column_aggregate(make: str, merge: str, finish: str = "{value}") -> Aggregate:
    return Aggregate({"value": make + "{filter}"}, {"value": merge + "({value})"}, finish)


def _counting_aggregate(make: str) -> Aggregate:
    return Aggregate(
        {"value": make + "{filter}"},
        {"value": "sum({value})"},
        "coalesce({value}, 0)",
        undone=frozenset({"value"}),
    )


def _moments_aggregate(finish: str) -> Aggregate:
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
            # A merged count below zero (more retractions than rows) may have a negative m2.
            "m2": "case when {n} < 0 then {q} - {s} * {s} / {n} "
            "else greatest({q} - {s} * {s} / nullif({n}, 0), 0D) end",
        },
        finish=finish,
        undone=frozenset({"n", "m2"}),
    )


_COUNT = _counting_aggregate("count({args})")
_INFINITY, _NAN = "cast('Infinity' as double)", "cast('NaN' as double)"
_DOUBLE = "cast({0} as double)"
_FINITE = f"case when abs({_DOUBLE}) < {_INFINITY} then {_DOUBLE} end"


def _sum_and_count(types: Types | None, finish: str) -> Aggregate:
    """SUM and the count of its values. `finish` computes the value from ``{sum}`` and ``{n}``."""
    make = {"sum": "sum({0}){filter}", "n": "count({0}){filter}"}
    merge = {"sum": "sum({sum})", "n": "sum({n})"}
    if types is None or not types.sum.startswith("decimal"):
        return Aggregate(make, merge, finish, undone=frozenset(make))
    return Aggregate(
        make,
        {**merge, "lost": "bool_or({lost})"},
        finish,
        lift={"sum": "{sum}", "n": "{n}", "lost": "{sum} is null and {n} <> 0"},
        lower={"sum": f"cast(case when not {{lost}} then {{sum}} end as {types.sum})", "n": "{n}"},
        undone=frozenset(make),
    )


def _sum_with_special_values(finish: str) -> Aggregate:
    """A sum of doubles from which values can be retracted."""
    make = {
        "sum": f"sum({_FINITE}){{filter}}",
        "n": f"count({_DOUBLE}){{filter}}",
        "nan": f"count_if(isnan({_DOUBLE})){{filter}}",
        "up": f"count_if({_DOUBLE} = {_INFINITY}){{filter}}",
        "down": f"count_if({_DOUBLE} = -{_INFINITY}){{filter}}",
    }
    value = (
        f"case when {{nan}} > 0 or ({{up}} > 0 and {{down}} > 0) then {_NAN} "
        f"when {{up}} > 0 then {_INFINITY} when {{down}} > 0 then -{_INFINITY} else {finish} end"
    )
    return Aggregate(
        make,
        {suffix: f"sum({{{suffix}}})" for suffix in make},
        f"case when {{n}} > 0 then {value} end",
        undone=frozenset(make),
    )


def _state_of_sum(types: Types | None, retracts: bool) -> Aggregate:
    """State of SUM."""
    if types is not None and types.sum == "double" and retracts:
        return _sum_with_special_values("{sum}")
    if retracts or (types is not None and types.sum.startswith("decimal")):
        return _sum_and_count(types, "case when {n} > 0 then {sum} end")
    return _one_column_aggregate("sum({0})", "sum")


def _state_of_avg(types: Types | None, retracts: bool) -> Aggregate:
    """State of AVG. Spark adds integers as DOUBLE, too."""
    if types is None:
        # Closest to Spark without types: an integer divided by 1 is a DOUBLE, a decimal stays a decimal.
        make = {"sum": "sum({0} / 1){filter}", "n": "count({0}){filter}"}
    elif types.result != "double":
        return _sum_and_count(types, f"cast({{sum}} / nullif({{n}}, 0) as {types.result})")
    elif retracts:
        return _sum_with_special_values("{sum} / {n}")
    else:
        make = {"sum": f"sum({_DOUBLE}){{filter}}", "n": f"count({_DOUBLE}){{filter}}"}
    merge = {"sum": "sum({sum})", "n": "sum({n})"}
    return Aggregate(make, merge, "{sum} / nullif({n}, 0)", undone=frozenset(make))


_SAMP = "case when {n} > 1 then {m2} / ({n} - 1) end"
_POP = "{m2} / nullif({n}, 0)"
_STD_SAMP = "case when {n} > 1 then sqrt({m2} / ({n} - 1)) end"
_STD_POP = "sqrt({m2} / nullif({n}, 0))"
_MOMENTS = {
    "variance": _SAMP,
    "var_samp": _SAMP,
    "var_pop": _POP,
    "stddev": _STD_SAMP,
    "std": _STD_SAMP,
    "stddev_samp": _STD_SAMP,
    "stddev_pop": _STD_POP,
}


def _retractable_moments(function: str) -> Aggregate:
    """Variance and standard deviation under retractions. Values that aren't finite are counted: any makes the result NaN."""
    moments = _moments_aggregate(_MOMENTS[function])
    finite = {suffix: text.replace(_DOUBLE, f"({_FINITE})") for suffix, text in moments.make.items()}
    odd = f"count({_DOUBLE}){{filter}} - count({_FINITE}){{filter}}"
    least = 1 if _MOMENTS[function] in (_SAMP, _STD_SAMP) else 0
    return Aggregate(
        make={**finite, "odd": odd},
        lift={**moments.lift, "odd": "{odd}"},
        merge={**moments.merge, "odd": "sum({odd})"},
        lower={**moments.lower, "odd": "{odd}"},
        finish=f"case when {{odd}} > 0 then case when {{n}} + {{odd}} > {least} then {_NAN} end else {moments.finish} end",
        undone=moments.undone | {"odd"},
    )


_SKETCHED = (
    "case when cast({0} as string) = '' then chr(0) "
    "when typeof({0}) in ('float', 'double') and cast({0} as string) = '-0.0' then '0.0' "
    "else cast({0} as string) end"
)
"""SQL of a value as a sketch counts it: an empty text would be skipped, and -0.0 equals 0.0."""

MERGEABLE: Mapping[str, Aggregate] = {
    "count": _COUNT,
    "count_if": _counting_aggregate("count_if({0})"),
    "min": _one_column_aggregate("min({0})", "min"),
    "max": _one_column_aggregate("max({0})", "max"),
    # Any value is right; the smallest doesn't depend on how the input is split into micro-batches.
    "any_value": _one_column_aggregate("min({0})", "min"),
    "any": _one_column_aggregate("bool_or({0})", "bool_or"),
    "bool_and": _one_column_aggregate("bool_and({0})", "bool_and"),
    "every": _one_column_aggregate("bool_and({0})", "bool_and"),
    "bool_or": _one_column_aggregate("bool_or({0})", "bool_or"),
    "some": _one_column_aggregate("bool_or({0})", "bool_or"),
    "bit_and": _one_column_aggregate("bit_and({0})", "bit_and"),
    "bit_or": _one_column_aggregate("bit_or({0})", "bit_or"),
    "bit_xor": _one_column_aggregate("bit_xor({0})", "bit_xor"),
    # A struct is ordered by its first field, so ties go to the smaller (larger) value, not to chance.
    "min_by": _one_column_aggregate(
        "min(case when {1} is not null then struct({1} as k, {0} as v) end)", "min", "{value}.v"
    ),
    "max_by": _one_column_aggregate(
        "max(case when {1} is not null then struct({1} as k, {0} as v) end)", "max", "{value}.v"
    ),
    **{name: _moments_aggregate(finish) for name, finish in _MOMENTS.items()},
    "approx_count_distinct": _one_column_aggregate(
        f"hll_sketch_agg({_SKETCHED}, 12)",
        "hll_union_agg",
        "coalesce(hll_sketch_estimate({value}), 0)",
    ),
}
"""Spark's name of an aggregate → its state, for functions whose state doesn't depend on types."""

TYPED = frozenset({"sum", "avg", "mean"})
"""Aggregates whose state depends on types."""

DISTINCT = TYPED | {"count"}
"""Aggregates whose DISTINCT values are stored in a shared distinct set."""

_RETRACTABLE: Mapping[str, Aggregate] = {
    "count": _COUNT,
    "count_if": MERGEABLE["count_if"],
    # XOR is its own inverse; without values, when the count is 0, the result is NULL.
    "bit_xor": Aggregate(
        {"value": "bit_xor({0}){filter}", "n": "count({0}){filter}"},
        {"value": "bit_xor({value})", "n": "sum({n})"},
        "case when {n} > 0 then {value} end",
        undone=frozenset({"n"}),
    ),
    **{name: _retractable_moments(name) for name in _MOMENTS},
}

KEPT = frozenset(MERGEABLE) | TYPED
"""Aggregates that are stored as partial aggregates."""

RETRACTABLE = frozenset(_RETRACTABLE) | TYPED
"""Aggregates from whose state a value can be retracted. Others are computed from the counts of values."""

PLAIN_WHEN_DISTINCT = frozenset(
    {"min", "max", "any", "any_value", "bool_and", "bool_or", "every", "some", "bit_and", "bit_or"}
)
"""Functions for which DISTINCT changes nothing."""


def incremental_aggregate(function: str, types: Types | None, retracts: bool) -> Aggregate:
    """Returns the state and SQL of an aggregate function.

    Args:
        types: Spark's types of the call. None without a session.
        retracts: whether values are retracted.
    """
    if function in TYPED:
        return _state_of_sum(types, retracts) if function == "sum" else _state_of_avg(types, retracts)
    return _RETRACTABLE[function] if retracts else MERGEABLE[function]
