"""`WindowAggregate`: GROUP BY over windows, stored as partial aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from sqlglot import exp

from ...aggregates.aggregate_builder import WINDOW_END, WINDOW_START
from ...aggregates.model import WindowAggregateSpec
from ...frontend.source_text import text_to_compare, text_without_aliases
from ...program import NEW_STATE, StateNames
from ...sql.names import digest
from ...windows.emission import FINAL, Emission
from ...windows.expansion import WINDOW_COLUMNS
from ..author_text import (
    Expressions,
    author_expressions,
    clauses_text,
    lifted_expressions,
    spec_as_written,
    spec_group_by_text,
    with_author_expressions,
)
from ..explanation import UPSERT, Changelog, Context, Explanation, kept_metrics
from ..lineage import Lineage
from ..state.sessions import SessionWindows
from ..state.sliced import SlicedWindows
from ..window_operator import WindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(WindowOperator):
    """GROUP BY over windows. Keeps partial aggregates per slice or session, and values for DISTINCT."""

    shown_as = ("WindowAggregate", "SessionAggregate")

    spec: WindowAggregateSpec

    def window_steps(self, emission: Emission = FINAL, names: StateNames = NEW_STATE) -> SlicedWindows:
        """Returns the steps and state of slices, or of sessions."""
        kind = SessionWindows if self.spec.window.merges else SlicedWindows
        return kind(self.spec, names.get(self.name, self.name), emission)

    def definition(self, below: Mapping[str, str]) -> dict[str, object]:
        """Returns what identifies the windows and their results, without their name."""
        spec = self.spec
        return {
            **super().definition(below),
            "keys": sorted((key.name, key.identity) for key in spec.keys),
            "sets": spec.grouping_sets and [sorted(members) for members in spec.grouping_sets],
            "order": spec.grouping_sets and [key.name for key in spec.keys],
            "sessions": list(spec.session_keys),
            "enumerated": spec.enumerated and asdict(spec.enumerated),
            "metrics": sorted(
                (each.name, each.identity, text_to_compare(each.rows, below)) for each in spec.metrics
            ),
            "output": text_to_compare(text_without_aliases(spec.output), {f"{spec.name}_windows": "windows"}),
        }

    def lineage_of_closed_windows(self, rows: str, means: Mapping[str, str]) -> Lineage:
        """Returns the lineage of the closed windows.

        Args:
            rows: digest of the windows, input rows and keys.
            means: digests of the results of other windows, by name.
        """
        spec = self.spec
        columns = {name: digest(rows, name) for name in (*WINDOW_COLUMNS, "grouping_id")}
        columns |= {key.name: digest(rows, "key", key.identity) for key in spec.keys}
        columns |= {
            each.name: digest(rows, "aggregate", each.identity, digest(text_to_compare(each.rows, means)))
            for each in spec.metrics
        }
        return Lineage(rows, tuple(columns.items()))

    def explain(self, context: Context) -> Explanation:
        """Returns its windows, keys and aggregates, the state of its slices, and that of distinct values."""
        spec, steps = spec_as_written(self.spec), self.window_steps(context.emission, context.names)
        window, unit = spec.window, "session" if self.spec.window.kind == "session" else "slice"
        and_key = " and key" if spec.keys else ""
        described = {steps.part: (f"partial aggregates per {unit}{and_key}", self.clearing_phrase(context))}
        first = window.has_known_start
        for part, values in steps.distinct_set_tables().values():
            named, finest = ", ".join(values), ", of the finest grouping set" if spec.has_finest_set else ""
            value = f"the first occurrence of a value of {named}" if first else f"a value of {named}, once"
            rows = f"{value} per {'window' if first else unit}{and_key}{finest}"
            described[part] = rows, self.clearing_phrase(context)
        at = "at each step" if window.grows else "when a window closes"
        values_of = "first occurrences per window" if first else f"occurrences per {unit}, counted {at}"
        ends = (WINDOW_START, WINDOW_END) if window.merges or window.time_zone else (WINDOW_END,)
        key = (*ends, *(each.sql for each in spec.keys))
        key = key if spec.grouping_sets is None else (*key, "grouping_id()")
        by = f" {spec_group_by_text(spec)}" if spec.keys else ""
        listed = clauses_text(self._output_query)
        found = self.explanation(
            context,
            f"{window}{by}{self.rows_suffix()}",
            "SessionAggregate" if window.merges else "WindowAggregate",
            key,
            state=context.state_tables(described, ("", "")),
            notes=(f"Emits {listed}.",) if listed else (),
            metrics=kept_metrics(
                spec.metrics, steps.state_columns(), f"partial aggregate per {unit}", values_of
            ),
        )
        return (
            replace(found, changelog=Changelog(UPSERT, key)) if context.emission.may_update_results else found
        )

    @property
    def _output_query(self) -> exp.Select:
        """Its select list and HAVING in the author's words."""
        return with_author_expressions(self.spec.output, author_expressions(spec_as_written(self.spec)))

    @property
    def expressions(self) -> Expressions:
        """Returns output column → the author's expression, for columns that pass one to a query above."""
        return lifted_expressions(self._output_query)
