"""`TopN`: the first N rows of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ...sql.dialect import parse
from ...sql.names import digest
from ..hidden_items import ROW_TIME
from ..lineage import Lineage
from ..operator import ResultSteps, Wiring, input_name
from ..query_lineage import of_query
from ..state.ranked_groups import ROW, RankedGroups, members_part
from ..state.ranked_rows import RankedRows
from ..state.top_n_fields import BY, ID, ORDER, TopNFields
from .project import row_by_row
from .source import views_below


@dataclass(frozen=True, kw_only=True)
class TopN(TopNFields):
    """Top-N. Over append-only rows it stores the rows that are among the first N. Over groups, whose ranks
    change, it stores the groups that are among the first N, and reads the groups' state when one of these
    falls."""

    @property
    def is_global(self) -> bool:
        """Whether it ranks all rows of an append-only input together."""
        return not (self.top.partition or self.inputs[0].relation.changes)

    @property
    def depends_on_watermark(self) -> bool:
        """Whether rows are emitted once they are final."""
        return self.final

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its first rows, with their rank."""
        select = parse(self.sql)
        assert isinstance(select, exp.Select)
        # ORDER BY refers to the row's columns, whatever the select list gives these names to.
        items = [each for each in select.expressions if each.alias_or_name != ROW_TIME]
        select.set(
            "expressions", sorted(items, key=lambda each: not each.alias_or_name.startswith((BY, ORDER, ID)))
        )
        made = of_query(select, {input_name(0): below[0]})
        own = [name for name, _ in made.columns if name.startswith((BY, ORDER, ID))]
        listed = made.without(*own)
        by, order = ([made.column(name) for name in own if name.startswith(each)] for each in (BY, ORDER))
        tied = [what for _, what in listed.columns] if self.top.order.endswith(ROW) else []
        top = (self.top.function, self.top.order, self.top.rows, self.top.buckets, self.final)
        rows = digest("top", *top, sorted(by), order, made.rows, tied, listed.star)
        return replace(listed, rows=rows, columns=(*listed.columns, (self.rank, digest(rows, "place"))))

    def generate(self, wiring: Wiring) -> None:
        """Stores the members of each ranking. If it is the result, the affected rankings are read after the commit;
        otherwise their changes are computed before it."""
        if self.inputs[0].relation.changes:
            self._rank_groups(wiring)
        else:
            self._rank_rows(wiring)

    def _rank_rows(self, wiring: Wiring) -> None:
        # A ranking is replayed under its state's name, or under its own if it is the result.
        replayed = wiring.is_replayed(self.name, members_part(self))
        rows = RankedRows(self, self.expires_after(wiring.ttl), wiring.event_time(self), replayed)
        compared = rows.compared_rows(views_below(self))
        wiring.rows += [] if compared is None else [compared]
        wiring.steps += rows.steps()
        wiring.store(rows.state(), self)
        if wiring.is_result(self):
            wiring.result(ResultSteps(rows.emit(replayed), rows.put_out, rows.touched, tuple(rows.keys)))
        else:
            wiring.steps.append(rows.change())

    def _rank_groups(self, wiring: Wiring) -> None:
        path, below = row_by_row(self.inputs[0])
        ranked = RankedGroups(self, wiring.groups[below.name], [each.sql for each in path])
        wiring.steps += ranked.steps()
        wiring.store(ranked.state(), self)
        if wiring.is_result(self):
            wiring.result(ResultSteps(ranked.emit(), ranked.put_out, ranked.touched, self.top.partition))
        else:
            wiring.steps.append(ranked.change())
        wiring.reads_state_of(self, below)
