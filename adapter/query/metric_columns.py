"""The state columns of one metric: the table of aggregates, with a metric's names in its placeholders."""

from __future__ import annotations

from .aggregates import DISTINCT, MERGEABLE, RETRACTABLE, Aggregate
from .plan import Metric
from .windows import quote

CENTER = "center"


class MetricColumns:
    """The state columns of one metric, with names in the place of the table's placeholders."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        kinds = MERGEABLE if metric.distinct_set is None or not metric.distinct else DISTINCT
        if metric.signed and metric.distinct_set is None:
            kinds = RETRACTABLE
        self.aggregate: Aggregate = kinds[metric.function]

    def column(self, suffix: str) -> str:
        """The name of a state column: the metric's own where there is one."""
        return self.metric.name if suffix == "value" else f"{self.metric.name}_{suffix}"

    def columns(self) -> list[str]:
        """The names of its state columns."""
        return [self.column(suffix) for suffix in self.aggregate.make]

    def make(self, sign: str = "sign") -> dict[str, str]:
        """State column → aggregate over rows."""
        arguments = ["*" if name == "*" else quote(name) for name in self.metric.arguments]
        condition = self.metric.filter if self.metric.distinct_set is None else None
        where = f" filter (where {quote(condition)})" if condition else ""
        words = {"args": ", ".join(arguments), "filter": where, "sign": sign}
        return {
            self.column(suffix): text.format(*arguments, **words)
            for suffix, text in self.aggregate.make.items()
        }

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
