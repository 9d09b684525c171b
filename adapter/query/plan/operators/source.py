"""`Source`: new rows of a stream, or changes of a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...windows.expansion import IS_VERSION
from ..explanation import UPSERT, Changelog, Context, Explanation
from ..lineage import Lineage, opaque_lineage
from ..operator import Operator, Wiring, inputs_first
from ..relation import WEIGHT, Relation

_IS_INSERTED = "_change_type in ('insert', 'update_after')"


@dataclass(frozen=True, kw_only=True)
class Source(Operator):
    """New rows of a stream, or changes of a changelog. No state."""

    depends_on_watermark = False

    view: str
    key: tuple[str, ...] = ()
    """Columns that identify a row of a changelog, in lower case."""
    event_time: str | None = None
    """Column (lower case) that the watermark is measured on; None without one, or if later rows replace earlier ones."""
    changelog: bool = False
    versions: bool = False
    """Whether a temporal join reads it: then rows of a changelog are versions with their metadata, without the rows before
    an update."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns what the project declares of the stream. A changelog has no more live rows than its table."""
        changes = self.changelog and not self.versions
        keys = (frozenset(self.key),) if self.key else ()
        return Relation(changes, keys=keys, event_time=self.event_time, bounded=changes)

    def rows_never_expire(self, below: Sequence[bool]) -> bool:
        """Whether it is a changelog, whose rows stay until they are deleted."""
        return self.changelog and not self.versions

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of a stream, by its name."""
        return opaque_lineage("source", self.name, self.changelog)

    def generate(self, wiring: Wiring) -> None:
        """Reads the view, with a weight if it is a changelog."""
        text = f"select * from {self.view}"
        if self.changelog and self.versions:
            text += f" where {IS_VERSION}"
        elif self.changelog:
            sign = f"if({_IS_INSERTED}, 1L, -1L) as {WEIGHT}"
            text = f"select * except (_change_type, _batch_id), {sign} from {self.view}"
        wiring.add_output_step(self, text)

    def explain(self, context: Context) -> Explanation:
        """Returns the stream, with its event time."""
        found = context.relations[self.view]
        if context.upserts is None:
            return found
        return replace(found, changelog=Changelog(UPSERT, context.upserts))


def views_below(operator: Operator) -> tuple[str, ...]:
    """Returns the views of the streams that an operator reads."""
    return tuple(each.view for each in inputs_first(operator) if isinstance(each, Source))
