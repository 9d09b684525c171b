"""State columns of one metric, and the SQL of its function (`aggregates`) over them."""

from __future__ import annotations

from ...util.quoting import quote
from .aggregates import Aggregate, incremental_aggregate
from .model import Metric

CENTER = "center"


class MetricColumns:
    """State columns of one metric and the SQL over them.

    >>> from sqlglot import exp
    >>> average = MetricColumns(Metric("price", "avg", ("price",), None, None, exp.Avg()))
    >>> average.make()
    {'price_sum': 'sum(`price` / 1)', 'price_n': 'count(`price`)'}
    >>> average.merge()
    {'price_sum': 'sum(`price_sum`)', 'price_n': 'sum(`price_n`)'}
    >>> average.finish()
    '`price_sum` / nullif(`price_n`, 0)'
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        # Distinct values are inserted and retracted as rows are. A metric over counted values has no state to retract from.
        retracts = metric.distinct or (metric.has_retractions and metric.distinct_set is None)
        self.aggregate: Aggregate = incremental_aggregate(metric.function, metric.types, retracts)

    def column(self, suffix: str) -> str:
        """Returns the state column of a suffix; ``value`` is the metric's own name."""
        return self.metric.name if suffix == "value" else f"{self.metric.name}_{suffix}"

    @property
    def suffixes(self) -> set[str]:
        """Suffixes of all the metric's columns, in the state and while merging."""
        lifted = {f"lifted_{suffix}" for suffix in self.aggregate.lift}
        center = {CENTER} if self.aggregate.needs_center else set()
        return {*self.aggregate.make, *lifted, *center} - {"value"}

    def columns(self) -> list[str]:
        """Names of the state columns."""
        return [self.column(suffix) for suffix in self.aggregate.make]

    def make(self, condition: str | None = None, sign: str | None = None) -> dict[str, str]:
        """Maps each state column to an aggregate over rows.

        Args:
            condition: SQL predicate of the rows that count. None for the metric's own FILTER.
            sign: a column the rows are grouped by, −1 for retractions. None if there are none.
        """
        arguments = ["*" if name == "*" else quote(name) for name in self.metric.arguments]
        if condition is None and self.metric.filter and self.metric.distinct_set is None:
            condition = quote(self.metric.filter)
        where = f" filter (where {condition})" if condition else ""
        words = {"args": ", ".join(arguments), "filter": where}
        made = {suffix: text.format(*arguments, **words) for suffix, text in self.aggregate.make.items()}
        for suffix in self.aggregate.undone if sign else ():
            # Negated and not multiplied: a product of decimals has another scale.
            made[suffix] = f"case when {sign} < 0 then -({made[suffix]}) else {made[suffix]} end"
        return {self.column(suffix): text for suffix, text in made.items()}

    def _with_column_names(self, text: str, lifted: bool) -> str:
        suffixes = self.aggregate.lift if lifted and self.aggregate.lift else self.aggregate.make
        names = {
            suffix: quote(self._lifted_name(suffix) if lifted else self.column(suffix)) for suffix in suffixes
        }
        return text.format(**names, **({CENTER: quote(self.column(CENTER))} if not lifted else {}))

    def _lifted_name(self, suffix: str) -> str:
        return self.column(f"lifted_{suffix}" if self.aggregate.lift else suffix)

    def lift(self) -> dict[str, str]:
        """Maps each lifted column to an expression over state columns. Empty if state columns merge directly."""
        return {
            self._lifted_name(suffix): self._with_column_names(text, False)
            for suffix, text in self.aggregate.lift.items()
        }

    def merge(self) -> dict[str, str]:
        """Maps each lifted column to an aggregate over state rows."""
        return {
            self._lifted_name(suffix): self._with_column_names(text, True)
            for suffix, text in self.aggregate.merge.items()
        }

    def lower(self) -> dict[str, str]:
        """Maps each state column to an expression over merged lifted columns."""
        if not self.aggregate.lower:
            return {name: quote(name) for name in self.columns()}
        return {
            self.column(suffix): self._with_column_names(text, True)
            for suffix, text in self.aggregate.lower.items()
        }

    def finish(self) -> str:
        """SQL of the metric's value from its state columns."""
        return self._with_column_names(self.aggregate.finish, False)
