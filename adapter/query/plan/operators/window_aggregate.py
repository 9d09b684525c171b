"""`WindowAggregate`: GROUP BY over windows, stored as partial aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ...aggregates.model import AggregateStage
from ...frontend.source_text import ordered, without_names
from ...sql.dialect import parse
from ...sql.names import digest, stages_renamed
from ...windows.emission import FINAL, Emission
from ..lineage import WINDOW_COLUMNS, Lineage
from ..state.sessions import SessionStage
from ..state.sliced import SlicedStage
from ..window_operator import WindowOperator


@dataclass(frozen=True, kw_only=True)
class WindowAggregate(WindowOperator):
    """GROUP BY over windows, stored as partial aggregates per slice or session."""

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
