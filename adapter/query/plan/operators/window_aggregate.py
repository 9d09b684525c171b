"""`WindowAggregate`: GROUP BY over windows, stored as partial aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from sqlglot import exp

from ...aggregates.aggregate_stage import WINDOW_END, WINDOW_START
from ...aggregates.model import AggregateStage
from ...frontend.source_text import ordered, without_names
from ...sql.dialect import parse
from ...sql.names import digest, stages_renamed
from ...windows.emission import FINAL, Emission
from ..author_text import clauses, expressions_of, grouping_of, lifted, put_back, select_of, written_stage
from ..explanation import UPSERT, Changelog, Context, Explanation, kept_metrics
from ..lineage import WINDOW_COLUMNS, Lineage
from ..state.sessions import SessionStage
from ..state.sliced import SlicedStage
from ..window_operator import WindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(WindowOperator):
    """GROUP BY over windows. Keeps partial aggregates per slice or session, and values for DISTINCT."""

    shown_as = ("WindowAggregate", "SessionAggregate")

    stage: AggregateStage

    def window_steps(self, emission: Emission = FINAL) -> SlicedStage:
        """Returns the steps and state of slices, or of sessions."""
        kind = SessionStage if self.stage.window.merges else SlicedStage
        return kind(self.stage, emission)

    def definition(self) -> dict[str, object]:
        """Returns what the windows compute, without the number of the stage."""
        stage = self.stage
        return {
            **super().definition(),
            "source": ordered(stage.source),
            "keys": sorted((key.name, key.identity) for key in stage.keys),
            "sets": stage.grouping_sets and [sorted(members) for members in stage.grouping_sets],
            "order": stage.grouping_sets and [key.name for key in stage.keys],
            "sessions": list(stage.session_keys),
            "enumerated": stage.enumerated and asdict(stage.enumerated),
            "metrics": sorted((each.name, each.identity, ordered(each.rows)) for each in stage.metrics),
            "output": without_names(parse(stage.output.replace(f"{stage.name}_windows", "__windows"))),
        }

    def closed_windows(self, rows: str, means: Mapping[str, str]) -> Lineage:
        """Returns the lineage of the closed windows.

        Args:
            rows: digest of the windows, input rows and keys.
            means: digests of the results of other windows, by name.
        """
        stage = self.stage
        columns = {name: digest(rows, name) for name in (*WINDOW_COLUMNS, "grouping_id")}
        columns |= {key.name: digest(rows, "key", key.identity) for key in stage.keys}
        columns |= {
            each.name: digest(
                rows, "aggregate", each.identity, digest(stages_renamed(ordered(each.rows), means))
            )
            for each in stage.metrics
        }
        return Lineage(rows, tuple(columns.items()))

    def explain(self, context: Context) -> Explanation:
        """Returns its windows, keys and aggregates, the state of its slices, and that of distinct values."""
        stage, steps = written_stage(self.stage), self.window_steps(context.emission)
        window, of = stage.window, "session" if self.stage.window.kind == "session" else "slice"
        and_key = " and key" if stage.keys else ""
        told = {steps.slices: (f"partial aggregates per {of}{and_key}", self.clears(context))}
        first = window.kind == "cumulate"
        for part, values in steps.set_parts().values():
            named, finest = ", ".join(values), ", of the finest grouping set" if stage.has_finest_set else ""
            what = f"the first occurrence of a value of {named}" if first else f"a value of {named}, once"
            rows = f"{what} per {'window' if first else of}{and_key}{finest}"
            told[part] = rows, self.clears(context)
        at = "at each step" if window.grows else "when a window closes"
        values_of = "first occurrences per window" if first else f"occurrences per {of}, counted {at}"
        ends = (WINDOW_START, WINDOW_END) if window.merges or window.time_zone else (WINDOW_END,)
        key = (*ends, *(each.sql for each in stage.keys))
        key = key if stage.grouping_sets is None else (*key, "grouping_id()")
        by = f" {grouping_of(stage)}" if stage.keys else ""
        listed = clauses(self._output)
        found = self.explanation(
            context,
            f"{window}{by}{self.of_rows()}",
            "SessionAggregate" if window.merges else "WindowAggregate",
            key,
            state=context.states(told, ("", "")),
            notes=(f"Emits {listed}.",) if listed else (),
            metrics=kept_metrics(
                stage.metrics, steps.state_columns(), f"partial aggregate per {of}", values_of
            ),
        )
        return replace(found, changelog=Changelog(UPSERT, key)) if context.emission.changes else found

    @property
    def _output(self) -> exp.Select:
        """Its select list and HAVING in the author's words."""
        return put_back(select_of(self.stage.output), expressions_of(written_stage(self.stage)))

    @property
    def expressions(self) -> Mapping[str, str]:
        """Returns the expressions that a query above displays."""
        return lifted(self._output)
