"""Phrases for what clears the state of an operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from ..sql import intervals
from ..sql.finite import is_finite
from ..sql.nodes import every

BOUNDED = "nothing: its input is bounded"
ALL_BOUNDED = "nothing: its inputs are bounded"
AS_ITS_INPUT = "nothing: as many as its input has"
_ONE = "nothing: there is one"
_DOMAINS, _FEW = "nothing: its keys are constant_domains", "nothing: the values of its keys are few"


class Bounds:
    """State settings of a model's configs.

    Args:
        ttl: microseconds until an idle key expires; None for never.
        domains: columns whose sets of values don't grow.
    """

    def __init__(self, ttl: int | None, domains: Collection[str]) -> None:
        self.ttl = ttl
        self.domains = {name.lower() for name in domains}

    def after(self, last: str) -> str | None:
        """Returns the TTL as a phrase, counted from `last`; None if there is no TTL."""
        return None if self.ttl is None else f"state_ttl, {intervals.format(self.ttl)} after {last}"

    def of_keys(
        self, keys: Mapping[exp.Expr, Collection[str]], select: exp.Select, is_bounded: bool = False
    ) -> str:
        """Returns why the state of these keys is bounded without a TTL.

        Args:
            keys: keys over the stored rows, each mapped to its aliases in the query, in lower case.
            select: SELECT whose FROM defines columns that are computed below.
            is_bounded: whether the number of rows is itself bounded.

        >>> from ..sql.dialect import parse
        >>> select = parse("select a, b % 3 as c, d + 1 as e from t")
        >>> a, b, d = (item.unalias() for item in select.expressions)
        >>> bounds = Bounds(None, ["A", "e"])
        >>> for keys in ({}, {a: (), d: ("e",)}, {b: ()}, {a: (), b: ()}, {d: ()}):
        ...     print(bounds.of_keys(keys, select, is_bounded=True))
        nothing: there is one
        nothing: its keys are constant_domains
        nothing: the values of its keys are few
        nothing: its keys are constant_domains, or have few values
        nothing: its input is bounded
        """
        if not keys:
            return _ONE
        covered = [self._covers(key, aliases) for key, aliases in keys.items()]
        few = [is_finite(key, select) for key in keys]
        if all(covered):
            return _DOMAINS
        if all(few):
            return _FEW
        is_each = all(one or other for one, other in zip(covered, few, strict=True))
        # Plans with unbounded state are rejected, so a key that isn't recognized here is one of the two.
        return BOUNDED if is_bounded and not is_each else f"{_DOMAINS}, or have few values"

    def _covers(self, key: exp.Expr, aliases: Collection[str]) -> bool:
        columns = {column.name.lower() for column in every(key, exp.Column)}
        return bool(self.domains & {*aliases}) or (bool(columns) and columns <= self.domains)
