"""`TopN`: the first N rows of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...sql.names import digest
from ...sql.nodes import copied
from ..explanation import Context, Explanation
from ..hidden_items import ROW_TIME
from ..lineage import Lineage
from ..operator import ResultSteps, Wiring, input_name
from ..query_lineage import lineage_of_query
from ..query_summary import describe_ranking
from ..relation import Relation
from ..relations.partitioned import PartitionedRows
from ..relations.passed import input_tables
from ..state.ranked_groups import RankedGroups
from ..state.ranked_rows import RankedRows
from ..state.ranking import BY, ID, ORDER, ROW, TopNFields, members_table
from .project import row_by_row
from .source import views_below

_UPDATABLE = (
    "A group's place only gets better, so the members and the groups that changed are all that is ranked."
)
_RETRACTABLE = (
    "The members and the groups that changed are ranked; where they don't fill a ranking any more, that ranking is looked "
    "up again in its groups' state."
)


@dataclass(frozen=True, kw_only=True)
class TopN(TopNFields):
    """The first N rows of each partition; with N = 1 in order of event time a deduplication. Over append-only
    rows it keeps the rows that are among the first. Over groups, whose ranks change, it keeps the groups that are among the
    first, and reads the state of all groups when one of these falls behind."""

    shown_as = ("AppendOnlyTopN", "UpdatableTopN", "RetractableTopN", "Deduplicate")

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns changes of the members of each ranking, or insertions only if rows are final when they are emitted."""
        (rows,) = below
        (table,) = input_tables(self.query)
        ranked = PartitionedRows(self.query, table.alias_or_name, rows, {self.rank.lower(): self.top.rows})
        bounded = rows.bounded or self.has_few_partitions
        return Relation(not self.final, keys=ranked.keys, bounded=bounded, ends=ranked.window_end_column)

    @property
    def is_global(self) -> bool:
        """Whether it ranks all rows of an append-only input together."""
        return not (self.top.partition or self.inputs[0].relation.changes)

    @property
    def depends_on_watermark(self) -> bool:
        """Whether rows are emitted when they are final."""
        return self.final

    def lineage(self, below: Sequence[Lineage]) -> Lineage | None:
        """Returns the lineage of its first rows, with their rank."""
        select = copied(self.tree)
        # A name in ORDER BY is the row's column, even if a select item has it as an alias.
        items = [each for each in select.expressions if each.alias_or_name != ROW_TIME]
        select.set(
            "expressions", sorted(items, key=lambda each: not each.alias_or_name.startswith((BY, ORDER, ID)))
        )
        made = lineage_of_query(select, {input_name(0): below[0]})
        if made is None:
            return None
        generated = [name for name, _ in made.columns if name.startswith((BY, ORDER, ID))]
        listed = made.without_columns(*generated)
        by, order = (
            [origin for name, origin in made.columns if name.startswith(each)] for each in (BY, ORDER)
        )
        tied = [origin for _, origin in listed.columns] if self.top.order.endswith(ROW) else []
        top = (self.top.function, self.top.order, self.top.rows, self.top.buckets, self.final)
        rows = digest("top", *top, sorted(by), order, made.rows, tied, listed.star)
        return replace(listed, rows=rows, columns=(*listed.columns, (self.rank, digest(rows, "place"))))

    def generate(self, wiring: Wiring) -> None:
        """Stores the members of each ranking. If it is the result, the affected rankings are read after the commit;
        otherwise their changes are computed before it."""
        ranked: RankedRows | RankedGroups
        part = wiring.name_in_state(members_table(self))
        if self.inputs[0].relation.changes:
            path, below = row_by_row(self.inputs[0])
            ranked = RankedGroups(self, part, wiring.groups[below.name], [each.sql for each in path])
            wiring.looks_into[self.name] = wiring.parts_of[below.name]
        else:
            ttl, time = self.expires_after(wiring.ttl), wiring.time_column(self)
            ranked = RankedRows(self, part, ttl, time, replayed=part in wiring.replayed)
            wiring.rows += ranked.rows_compared_with_watermark(views_below(self))
        wiring.steps += ranked.steps()
        wiring.add_state_table(ranked.state(), self)
        if wiring.result is self:
            by = tuple(ranked.keys)
            wiring.result_steps = ResultSteps(ranked.emit_steps(), ranked.output, ranked.touched, by)
        else:
            wiring.steps.append(ranked.change_step())

    def explain(self, context: Context) -> Explanation:
        """Returns its ranking in Flink's terms, and what clears the rows of its state."""
        (below,) = self.inputs
        select = self.query_as_written(self.query)
        of_groups, time = below.relation.changes, below.relation.event_time
        name, what = describe_ranking(select, self.top.rows, "" if of_groups else time or "")
        notes = []
        if of_groups:
            name = "UpdatableTopN" if self.improves else "RetractableTopN"
            rows, clears = "a member that came, changed or left", "when it has left the ranking"
            notes.append(_UPDATABLE if self.improves else _RETRACTABLE)
        else:
            rows, clears = "a row that is, or was, among the first", "when others take its place"
            last = "its ranking's last new member"
            if name == "Deduplicate":
                rows, last = f"the {what.split()[1]} row of a key", "it came"
                clears = context.why_keys_are_bounded(bool(self.top.partition), below.relation.bounded)
            else:
                name = "AppendOnlyTopN"
            clears = (None if self.is_global else context.ttl_after(last)) or clears
        if self.final:
            notes.append(
                "A row is emitted when the watermark has passed it, so that none can come before it."
            )
        if self.top.buckets is not None:
            notes.append(f"New rows are ranked in {self.top.buckets} buckets first.")
        state = context.state_tables({}, (rows, clears))
        found = self.explanation(context, what, name, state=state, notes=tuple(notes))
        return replace(found, event_time=f"{time}, emitted in its order") if self.final else found
