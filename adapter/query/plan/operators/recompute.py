"""`Recompute`: any query, computed again over the partitions that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ....util.quoting import quote
from ...program import Step, clock_sql
from ...sql.dialect import sql
from ...windows.windows import Window
from ..author_text import aggregate_calls, group_key_texts, text_of
from ..explanation import EVERYTHING, PARTITIONS, Computing, Context, Explanation, KeptMetric
from ..join_sides import states_of_sides
from ..lineage import Lineage, text_lineage
from ..operator import (
    ExpiringOperator,
    QueryOperator,
    ResultSteps,
    Until,
    Wiring,
    rows_never_expire,
    with_inputs,
)
from ..query_lineage import canonical_by_position
from ..query_summary import Summary, tables_read_by
from ..relation import WEIGHT, Relation
from ..relations.windowed import RowsInWindows
from ..state.buffered_rows import (
    ROW,
    TIMES,
    BufferedRows,
    Partitions,
    TopRows,
    net_change,
    present_rows,
    repeated_rows,
)
from ..state.generations import rows_of_keys, time_plus_sql
from ..time_bounds import buffered_join_side


@dataclass(frozen=True, kw_only=True)
class Recompute(QueryOperator, ExpiringOperator):
    """Any other query, such as LEAD, a percentile, an outer join, EXISTS or a scalar subquery: computed again
    over all rows of the partitions that changed; the previous result is retracted. Keeps the rows of its inputs."""

    shown_as = (
        "Recompute",
        "IntervalJoin",
        "RegularJoin",
        "GroupAggregate",
        "OverAggregate",
        "AppendOnlyTopN",
        "RetractableTopN",
        "Deduplicate",
        "WindowTableFunction",
    )

    keys: tuple[tuple[exp.Expr, ...], ...]
    """Per input, its partition keys, over its alias; empty if everything is recomputed."""
    aliases: tuple[str, ...]
    """Alias of each input."""
    unique: tuple[frozenset[str], ...] = ()
    """Sets of columns; each set identifies a row of the query."""
    end: str | None = None
    """Column with the end of the window that its rows expire with; None if there is none."""
    delays: Mapping[str, int] = field(default_factory=dict)
    """`Relation.delays` of its rows."""
    has_few_rows: bool = False
    """Whether the number of its rows is bounded, even if the inputs' numbers aren't."""
    top: TopRows | None = None
    window: Window | None = None
    """Windows whose bounds depend on their rows, if it assigns rows to such windows; None for other queries."""
    until: tuple[Until, ...] = ()
    """See `ExpiringOperator.until`."""

    asks_for_rows: bool = False
    """Whether the query has a subquery in its select list, or LATERAL."""

    shown: tuple[str, ...] | None = None
    """Output columns (lower case) with the keys, for a GROUP BY that is the result; None for others."""

    always: tuple[int, ...] = ()
    """Indexes of the inputs that have a row in each result row."""

    def relation_over(self, below: Sequence[Relation]) -> Relation:
        """Returns changes of its rows, or insertions only for an interval join. The query may be any, so the planner says
        what identifies its rows."""
        if self.window is not None:
            return RowsInWindows(self.window, below[0], False).recomputed_relation
        return Relation(
            not self.until,
            keys=self.unique,
            ends=self.end,
            delays=self.delays,
            bounded=self.has_few_rows or all(each.bounded for each in below),
        )

    @property
    def busy(self) -> str | None:
        """Returns SQL over ``own``, an input's row, of the time until which its partition isn't idle; None for the row's
        arrival."""
        if self.window is None:
            return None
        return time_plus_sql(f"cast(own.{self.window.time} as timestamp)", self.window.size)

    @property
    def recomputes_everything(self) -> bool:
        """Whether everything is recomputed, since no partition limits it."""
        return not any(self.keys)

    @property
    def has_rows_without_input(self) -> bool:
        """Whether it has no partitions: then the query may be a global aggregate, which returns a row for no input rows."""
        return self.recomputes_everything

    def rows_never_expire(self, below: Sequence[bool]) -> bool:
        """Whether its rows never expire. A partition doesn't expire while it has such rows of an input in `always`."""
        return (
            all(below[number] for number in self.always) if self.always else super().rows_never_expire(below)
        )

    def lineage(self, below: Sequence[Lineage]) -> Lineage:
        """Returns the lineage of its text, its partitions and the rows that a ranking needs."""
        also: list[object] = [canonical_by_position(key, self.aliases) for keys in self.keys for key in keys]
        if self.top is not None:
            also += ["top", self.top.rows]
        return text_lineage("Recompute", self.tree, below, *also)

    def generate(self, wiring: Wiring) -> None:
        """Stores the inputs' rows, and computes the affected partitions before and after the change. If it is the result,
        they are only computed after the commit."""
        partitions, stored = self._stored_inputs(wiring)
        is_result = wiring.result is self
        if partitions is not None:
            wiring.steps += partitions.steps(self._touched_partitions(partitions, is_result), stored)
        if is_result:
            assert partitions is not None
            (only,) = stored
            wiring.add_state_table(only.state(()), only)
            wiring.result_steps = self._group_result_steps(only, partitions)
            return
        for each in stored:
            wiring.add_state_table(each.state(stored), each)
        before, after, first = (
            with_inputs(self.sql, [self._rows_as_read(each, rows(each)) for each in stored])
            for rows in (BufferedRows.rows_before, BufferedRows.rows_after, BufferedRows.change_sql)
        )
        both = (
            f"select struct(*) as {ROW}, 1L as {TIMES} from (\n{after}\n)\nunion all\n"
            f"select struct(*) as {ROW}, -1L as {TIMES} from (\n{before}\n)"
        )
        if self.relation.changes:
            wiring.add_output_step(self, net_change(both), f"select *, 1L as {WEIGHT} from (\n{first}\n)")
        else:
            # Nothing is retracted: the new result has all rows of the old one.
            wiring.add_output_step(self, repeated_rows(present_rows(both, True), True), first)

    def explain(self, context: Context) -> Explanation:
        """Returns its query, the partitions that are computed again, and the rows that are stored for that."""
        name, text = Summary(
            self.inputs[0].expressions, last=None if self.top is None else self.top.rows
        ).describe(self.query)
        name = {
            "Join": "RegularJoin",
            "Aggregate": "GroupAggregate",
            "TopN": "RetractableTopN" if self.top is None else "AppendOnlyTopN",
        }.get(name, name if name in self.shown_as else "Recompute")
        last = "the session's end" if name == "WindowTableFunction" else "its partition's last change"
        clears = self.ttl_phrase(context, last)
        need = "that later changes need"
        rows = f"an input's row {need}"
        if self.top is not None:
            rows = f"a row that is, or was, among the first {self.top.rows} of its partition"
            clears = clears or "when others take its place"
        is_grouped = name == "GroupAggregate"
        calls = aggregate_calls(self.query) if is_grouped else []
        computing = Computing(EVERYTHING, cost="reads all rows that it keeps, and what they gave before")
        if not self.recomputes_everything:
            by = tuple(map(text_of, next(keys for keys in self.keys if keys)))
            cost = "reads the kept rows of each partition that changed, and what they gave before"
            computing = Computing(PARTITIONS, by, cost)
        if self.ends or clears is None:
            clears = self.clearing_phrase(context)
        if self.query.args.get("joins"):
            state = states_of_sides(
                self, self.query, context, need=need, until=self.until, clears=lambda _: str(clears)
            )
        else:
            state = context.state_tables({}, (rows, clears))
        return self.explanation(
            context,
            text or text_of(self.query),
            "IntervalJoin" if self.until else name,
            tuple(group_key_texts(self.query)) if is_grouped else None,
            state=state,
            computing=computing,
            metrics=tuple(KeptMetric(call, kind, (), "computed from the kept rows") for call, kind in calls),
            notes=(f"Why rows are kept: {self.label}.",) if is_grouped else (),
            reads=tables_read_by(self.query),
        )

    def _stored_inputs(self, wiring: Wiring) -> tuple[Partitions | None, list[BufferedRows]]:
        """Returns how the inputs are stored: their common partitions, None without any, and the buffer of each input."""
        size = max(map(len, self.keys))
        if self.until:
            partitions = Partitions(self.name, size, None) if size else None
            inputs = zip(self.inputs, self.until, self.keys, self.aliases, strict=True)
            return partitions, [
                replace(
                    buffered_join_side(each, wiring.names, until),
                    partitions=partitions,
                    keys=keys,
                    alias=alias,
                    expires_by_itself=True,
                )
                for each, until, keys, alias in inputs
            ]
        ttl, ends = self.expires_after(wiring.ttl), self.ends or (None,) * len(self.inputs)
        # Rows that never expire prevent their partitions from expiring, if they are in the result without a match.
        # Otherwise they only stay in the state, for later rows of other inputs.
        never_expire = [*map(rows_never_expire, self.inputs)]
        # Whether each result row has a row that expires under a TTL.
        anchored = not all(never_expire[number] for number in self.always)
        held = any(never_expire) and not (anchored or ttl is None or self.ends)
        needed = size or ttl is not None or self.shown is not None
        partitions = Partitions(self.name, size, ttl, held) if needed else None
        return partitions, [
            BufferedRows(
                operator=each,
                names=wiring.names,
                ttl=ttl,
                partitions=partitions,
                keys=keys,
                alias=alias,
                top=self.top,
                busy=self.busy,
                ends=end,
                stays=anchored and stays,
                holds=held and stays,
            )
            for each, keys, alias, end, stays in zip(
                self.inputs, self.keys, self.aliases, ends, never_expire, strict=True
            )
        ]

    def _group_result_steps(self, rows: BufferedRows, partitions: Partitions) -> ResultSteps:
        """Returns the affected groups of a GROUP BY that is the result, recomputed from their buffered rows."""
        touched, result = f"{self.name}_put_out", f"{self.name}_result"
        listed, added_keys = ", ".join(partitions.names), rows.keys_stored_in_step()
        computed = with_inputs(self.sql, [self._rows_as_read(rows, rows.current_rows(touched))])
        if not partitions.names:
            # An aggregate over no rows has one row.
            listed, added_keys = (
                "true as anything",
                _global_result_trigger_sql(partitions.ttl, added_keys),
            )
            computed = rows_of_keys(f"(\n{computed}\n)", [], touched)
        return ResultSteps(
            [
                Step(
                    touched, added_keys, persist=True, fresh=f"select {listed} from {partitions.touched_keys}"
                ),
                Step(result, computed),
            ],
            f"(select *, 1L as {WEIGHT} from {result})",
            touched,
            tuple(partitions.names),
        )

    def _rows_as_read(self, kept: BufferedRows, rows: str) -> str:
        """Returns rows of an input as the query reads them."""
        changes = kept.operator.relation.changes
        return repeated_rows(present_rows(rows, changes), changes, apart=self.asks_for_rows)

    def _touched_partitions(self, partitions: Partitions, is_result: bool) -> str:
        """Returns the query for the distinct keys of the partitions that the inputs' changes affect."""
        if self.recomputes_everything:
            (first, *_) = self.inputs
            return _global_result_trigger_sql(
                partitions.ttl if is_result else None, f"select true as anything from {first.name}"
            )
        sides = [
            f"select {', '.join(f'{sql(key)} as {name}' for key, name in zip(keys, partitions.names, strict=True))} "
            f"from {each.name} as {quote(alias)}"
            for each, keys, alias in zip(self.inputs, self.keys, self.aliases, strict=True)
        ]
        return "\nunion\n".join(sides) if len(sides) > 1 else f"select distinct * from (\n{sides[0]}\n)"


def _global_result_trigger_sql(ttl: int | None, input_rows: str) -> str:
    """Returns a query that has a row if a global result is emitted: in the first micro-batch, even without input rows,
    and later only with some, since an expired state can't reproduce the result.

    Args:
        ttl: microseconds until idle state expires; None for never.
        input_rows: query with a row for each input row.
    """
    if ttl is None:
        return "select true as anything"
    first = f"select true as anything from clock where {clock_sql('watermark_before')} is null"
    return f"select distinct * from (\n{input_rows}\nunion all\n{first}\n)"
