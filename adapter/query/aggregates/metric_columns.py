"""The state columns of one metric: the table of aggregates, with a metric's names in its placeholders."""

from __future__ import annotations

from ...util.quoting import quote
from .aggregates import Aggregate, kept_as
from .model import Metric

CENTER = "center"


class MetricColumns:
    """The state columns of one metric, with names in the place of the table's placeholders."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        # First sights come and go, as rows do; what is computed from its values doesn't.
        retracts = metric.distinct or (metric.signed and metric.distinct_set is None)
        self.aggregate: Aggregate = kept_as(metric.function, metric.types, retracts)

    def column(self, suffix: str) -> str:
        """The name of a state column: the metric's own where there is one."""
        return self.metric.name if suffix == "value" else f"{self.metric.name}_{suffix}"

    @property
    def suffixes(self) -> set[str]:
        """What is added to its name for columns, in the state and on the way to it."""
        lifted = {f"lifted_{suffix}" for suffix in self.aggregate.lift}
        center = {CENTER} if self.aggregate.needs_center else set()
        return {*self.aggregate.make, *lifted, *center} - {"value"}

    def columns(self) -> list[str]:
        """The names of its state columns."""
        return [self.column(suffix) for suffix in self.aggregate.make]

    def make(self, condition: str | None = None, sign: str | None = None) -> dict[str, str]:
        """State column → aggregate over rows.

        Args:
            condition: which rows are counted; None: those that pass the metric's own FILTER.
            sign: a column that the rows are grouped by, −1 where they are taken away; None: none are.
        """
        arguments = ["*" if name == "*" else quote(name) for name in self.metric.arguments]
        if condition is None and self.metric.filter and self.metric.distinct_set is None:
            condition = quote(self.metric.filter)
        where = f" filter (where {condition})" if condition else ""
        words = {"args": ", ".join(arguments), "filter": where}
        made = {suffix: text.format(*arguments, **words) for suffix, text in self.aggregate.make.items()}
        for suffix in self.aggregate.undone if sign else ():
            # Not multiplied: a product of decimals has another scale.
            made[suffix] = f"case when {sign} < 0 then -({made[suffix]}) else {made[suffix]} end"
        return {self.column(suffix): text for suffix, text in made.items()}

    def _named(self, text: str, lifted: bool) -> str:
        suffixes = self.aggregate.lift if lifted and self.aggregate.lift else self.aggregate.make
        names = {
            suffix: quote(self._lifted_name(suffix) if lifted else self.column(suffix)) for suffix in suffixes
        }
        return text.format(**names, **({CENTER: quote(self.column(CENTER))} if not lifted else {}))

    def _lifted_name(self, suffix: str) -> str:
        return self.column(f"lifted_{suffix}" if self.aggregate.lift else suffix)

    def lift(self) -> dict[str, str]:
        """Lifted column → expression over state columns; none where state columns merge as they are."""
        return {
            self._lifted_name(suffix): self._named(text, False)
            for suffix, text in self.aggregate.lift.items()
        }

    def merge(self) -> dict[str, str]:
        """Lifted column → aggregate over rows of state."""
        return {
            self._lifted_name(suffix): self._named(text, True)
            for suffix, text in self.aggregate.merge.items()
        }

    def lower(self) -> dict[str, str]:
        """State column → expression over merged lifted columns."""
        if not self.aggregate.lower:
            return {name: quote(name) for name in self.columns()}
        return {self.column(suffix): self._named(text, True) for suffix, text in self.aggregate.lower.items()}

    def finish(self) -> str:
        """The metric's value from its state columns."""
        return self._named(self.aggregate.finish, False)
