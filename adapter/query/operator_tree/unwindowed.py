"""Stages of queries without windows as operators: groups, rankings, joins of streams, rows that are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from .. import intervals
from ..aggregate_stage import GROUPING_ID
from ..dialect import DIALECT, parse
from ..operators.group_state import Groups
from ..operators.unbounded_state import is_covered
from ..plan import AggregateStage, GroupStage, JoinStage, KeptStage, Key, KeyedStage, TopStage, UnboundedState
from ..plan import Metric as PlanMetric
from ..unwindowed.top_n import members_part
from . import text
from .node import APPEND, RETRACT, UPSERT, Changelog, Metric, Node, State, make
from .selects import Read, named_ranking
from .state import Columns
from .window_stages import grouping_sets

UPDATABLE = (
    "A group's place only gets better, so the members and the groups that changed are all that is ranked."
)
RETRACTABLE = (
    "The members and the groups that changed are ranked; where they don't fill a ranking any more, that ranking is looked "
    "up again in its groups' state."
)


class Bounds:
    """What clears the state of a query without windows.

    Args:
        ttl: microseconds after which an idle key expires; None: never.
        domains: columns whose sets of values do not grow.
    """

    def __init__(self, ttl: int | None, domains: Collection[str]) -> None:
        self.ttl = ttl
        self.domains = {name.lower() for name in domains}

    def after(self, last: str) -> str | None:
        """What the TTL says, counted from something; None: there is none."""
        return None if self.ttl is None else f"state_ttl, {intervals.format(self.ttl)} after {last}"

    def of(self, keys: Sequence[Key], growth: UnboundedState | None, last: str) -> str:
        """Of what is kept for each value of keys."""
        if (after := self.after(last)) is not None:
            return after
        if growth is None:
            return "nothing: as many as its input has"
        if not keys:
            return "nothing: there is one"
        if not growth.by:
            return "nothing: the values of its keys are few"
        if all(is_covered(names, self.domains) for names in growth.by):
            return "nothing: its keys are constant_domains"
        return f"nothing: it grows with {', '.join(key.sql for key in keys)}"


def metrics_of(stage: GroupStage, pieces: Groups) -> tuple[Metric, ...]:
    """The aggregates of groups, and where they are kept."""
    own = pieces.state_columns()
    return tuple(
        Metric(
            text.tidy(m.sql),
            f"{m.function} distinct" if m.distinct else m.function,
            tuple(own.get(m.identity, ())),
            _how(m),
        )
        for m in stage.metrics
    )


def _how(metric: PlanMetric) -> str:
    if metric.distinct_set is None:
        return "partial aggregate per key"
    return "how often each value is there" if metric.signed else "first occurrences per key"


def state_of_groups(
    stage: GroupStage, pieces: Groups, columns: Columns, clears: str, ttl: int | None
) -> tuple[State, ...]:
    """The parts of the state with groups and their distinct values."""
    kept = "partial aggregates per key" if stage.keys else "partial aggregates"
    found = [State(pieces.part, kept, clears, columns(pieces.part))]
    for part, values in pieces.set_parts().values():
        named = ", ".join(values)
        what = f"how often a value of {named} is there" if stage.signed else f"a value of {named}, once"
        value_clears = "with its key" if ttl is not None else "nothing: as many as there are values"
        if stage.signed and ttl is None:
            value_clears = "when it isn't there any more"
        found.append(
            State(part, f"{what}{' per key' if stage.keys else ''}", value_clears, columns(part))
        )  # fmt: skip
    return tuple(found)


def written_of(stage: AggregateStage | GroupStage) -> Mapping[str, str]:
    """The author's expression for each column of groups."""
    return {key.name: key.sql for key in stage.keys} | {m.name: m.sql for m in stage.metrics}


def by_keys(stage: GroupStage) -> str:
    """The GROUP BY of groups in short."""
    if stage.grouping_sets is not None:
        return f"by {grouping_sets(stage)}"
    return f"by {', '.join(text.tidy(key.sql) for key in stage.keys)}" if stage.keys else "all rows"


def key_of(stage: GroupStage) -> tuple[str, ...]:
    """What tells groups apart, in the author's words."""
    sets = (f"{GROUPING_ID}()",) if stage.grouping_sets is not None else ()
    return (*(text.tidy(key.sql) for key in stage.keys), *sets)


def groups(stage: GroupStage, bounds: Bounds, columns: Columns, below: Node) -> Read:
    """The operator of a GROUP BY."""
    pieces = Groups(stage, bounds.ttl, fused=False)
    key = key_of(stage)
    node = make(
        "GroupAggregate",
        by_keys(stage),
        Changelog(UPSERT, key),
        (below,),
        identity=stage.name,
        key=key,
        state=state_of_groups(
            stage, pieces, columns, bounds.of(stage.keys, stage.growth, "the key's last row"), bounds.ttl
        ),
        metrics=metrics_of(stage, pieces),
    )
    return Read(node, written_of(stage), stage.keys)


def top(stage: TopStage, bounds: Bounds, columns: Columns, below: Read) -> Read:
    """The operator of a ranking."""
    time = below.time
    within = [text.tidy(key.sql) for key in stage.keys]
    name, what = named_ranking(
        stage.top.function,
        stage.top.rows,
        _order(stage, below.written),
        within,
        "",
        stage.operator,
        time,
    )
    notes, part = [], members_part(stage.name)
    kept = "a row that is, or was, among the first"
    clears = bounds.after("its ranking's last new member") or "when others take its place"
    if stage.over is not None:
        notes.append(UPDATABLE if stage.improves else RETRACTABLE)
        kept = "a member that came, changed or went"
        clears = bounds.after("its group's last row") or "when it is no member any more"
    elif name == "Deduplicate" and stage.final:
        kept = "the first row of a key"
        clears = bounds.of(stage.keys, stage.growth, "it came")
        notes.append("A row is emitted when the watermark has passed it, so that none can come before it.")
    elif name == "Deduplicate":
        kept = "the last row of a key"
        clears = bounds.of(stage.keys, stage.growth, "it came")
    if stage.top.buckets is not None:
        notes.append(f"New rows are ranked in {stage.top.buckets} buckets first.")
    key = tuple(within) if stage.top.rows == 1 else (*within, stage.rank)
    if stage.over is not None:
        key = tuple(column for column, _ in stage.identity)
    node = make(
        name,
        what,
        Changelog(APPEND) if stage.final else Changelog(UPSERT, key),
        (below.node,),
        identity=stage.name,
        key=key if stage.top.function == "row_number" or stage.over is not None else None,
        event_time=f"{time}, emitted in its order" if stage.final else None,
        state=(State(part, kept, clears, columns(part)),),
        notes=tuple(notes),
    )
    return Read(node, rank=(stage.rank, stage.top.rows), time=time)


def _order(stage: TopStage, of_groups: Mapping[str, str]) -> str:
    """The ORDER BY of a ranking in the author's words: its rows have the expressions as columns.

    Args:
        stage: the ranking.
        of_groups: the author's expressions for the columns of groups, where it is right over these.
    """
    rows = parse(stage.rows)
    assert isinstance(rows, exp.Select)
    if of_groups:
        rows = text.put_back(rows, of_groups, ())
    written = {item.alias: item.this for item in rows.expressions if isinstance(item, exp.Alias)}
    window = parse(f"select row_number() over (order by {stage.top.order})").find(exp.Window)
    assert window is not None
    found = []
    for each in window.args["order"].expressions:
        if isinstance(each.this, exp.Column) and each.this.name in written:
            each.set("this", written[each.this.name].copy())
            found.append(text.shown(each))
    return ", ".join(found)


def kept(stage: KeptStage, bounds: Bounds, columns: Columns, below: Node) -> Read:
    """The operator of rows of a stream that are kept as they are."""
    part = f"{stage.name}_rows"
    if stage.lasts is not None:
        condition: exp.Expr = exp.maybe_parse(stage.reason, dialect=DIALECT)
        length = stage.lasts - isinstance(condition, exp.GTE | exp.LTE)
        node = make(
            "TemporalFilter",
            text.shown(condition),
            Changelog(RETRACT),
            (below,),
            identity=stage.name,
            state=(
                State(
                    part,
                    "a row for which it holds",
                    f"watermark − {intervals.format(length)}",
                    columns(part),
                ),
            ),
            notes=("A row leaves the result when the watermark has passed it by that much.",),
        )
        return Read(node)
    clears = bounds.after("the row's event time") or "nothing: it grows with every row"
    node = make(
        "RowBuffer",
        "all rows",
        below.changelog,
        (below,),
        identity=stage.name,
        event_time=below.event_time,
        state=(State(part, "a row", clears, columns(part)),),
        notes=(f"Why rows are kept: {stage.reason}.",),
    )
    return Read(node)


def join(stage: JoinStage, bounds: Bounds, columns: Columns, inputs: tuple[Node, ...]) -> Node:
    """The operator of a join of streams."""
    select = parse(stage.written)
    assert isinstance(select, exp.Select)
    in_time = stage.growth is None
    state = []
    for side in stage.sides:
        part = f"{stage.name}_{side.alias}"
        if in_time and side.lasts is not None:
            clears = f"watermark − {intervals.format(side.lasts - 1)}" if side.lasts > 1 else "watermark"
        else:
            clears = bounds.after("the row's event time") or "nothing: it grows with every row"
        state.append(State(part, f"a row of {side.alias} that may still match", clears, columns(part)))
    notes = []
    if stage.unmatched is not None:
        notes.append(f"A row of {stage.sides[0].alias} without a match is emitted when its state is cleared.")
    return make(
        "IntervalJoin" if in_time else "RegularJoin",
        text.joins(select) or f"of {', '.join(side.alias for side in stage.sides)}",
        Changelog(APPEND),
        inputs,
        identity=stage.name,
        state=tuple(state),
        notes=tuple(notes),
    )


def normalized(stage: KeyedStage, bounds: Bounds, columns: Columns, below: Node) -> Read:
    """The operator of a stream whose rows replace each other."""
    if stage.signed and stage.feed:
        return Read(below)  # a changelog says itself what a row replaces
    part = f"{stage.name}_rows"
    keys = [Key(name, name) for name in stage.key]
    clears = bounds.of(keys, stage.growth, "its last row")
    what = "the last row of a key"
    if not stage.stored:
        what, clears = "a row of the last micro-batch", "the next compaction: nothing looks back at it"
    elif stage.feed:
        clears = "when it is deleted upstream"
    notes = ("What a row replaces is retracted from the aggregates above.",) if stage.signed else ()
    node = make(
        "ChangelogNormalize",
        f"the last row per {', '.join(stage.key)}",
        Changelog(RETRACT) if stage.signed else Changelog(UPSERT, stage.key),
        (below,),
        identity=stage.name,
        key=stage.key,
        state=(State(part, what, clears, columns(part)),),
        notes=notes,
    )
    return Read(node)
