"""Splits a grouped SELECT into keys, metrics and distinct sets, and the SQL below and above them.

A query that can't be stored as partial aggregates isn't rejected here: the reason is returned (`why_rows_are_stored`), and
the planner stores rows instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from ...util.quoting import quote, split_path
from ..errors import QueryError
from ..frontend import hints
from ..frontend.source_text import SourceText, possible_columns
from ..program import EXPIRES_AT
from ..sql.clauses import AROUND, is_star_over, output_name, relations, unwrap_call
from ..sql.dialect import (
    DIALECT,
    arguments,
    canonical,
    function_name,
    is_distinct,
    parse,
    sql,
    unambiguous_names,
)
from ..sql.names import ContentNames, digest
from ..sql.nodes import copied, every, is_name
from ..sql.tie_breaking import break_ties, break_ties_of_extremes
from ..windows.expansion import LEAVING_OUT, with_null_window_columns
from ..windows.window_columns import FromRelation, window_column
from ..windows.windows import Window
from .aggregates import DISTINCT, KEPT, PLAIN_WHEN_DISTINCT, RETRACTABLE, TYPED, Types
from .grouping import grouping, keys_of_grouping
from .metric_columns import MetricColumns
from .model import FLAGS, DistinctSet, Flag, Key, Metric
from .types import types_of

EVENT_TIME = "event_time"
WINDOW_START, WINDOW_END, WINDOW_TIME, SLICE_END = "window_start", "window_end", "window_time", "slice_end"
SESSION_START, SESSION_END, MERGE_FROM = "session_start", "session_end", "merge_from"
GROUPING_ID = "grouping_id"
RESERVED = (
    SESSION_START,
    SESSION_END,
    MERGE_FROM,
    EVENT_TIME,
    EXPIRES_AT,
    WINDOW_START,
    WINDOW_END,
    WINDOW_TIME,
    SLICE_END,
    GROUPING_ID,
    *"part sign step row_time since".split(),
    # Columns next to state columns in the SQL of windows and of `clock`.
    *"start_micros end_micros first_micros last_micros next_slice condition batch_id".split(),
    *"now_before now_after watermark_before watermark_after".split(),
    # Columns in the SQL of rankings.
    *"place bucket_place member members last ahead is_last due fresh".split(),
)

_KEY = "key"


def hidden_slice_name(name: str) -> str:
    """Name of a slice column in queries below the window operator. It is reserved, so that no author's name is equal."""
    return f"__{name}"


def session_keys(window: Window) -> list[str]:
    """State columns with the values that sessions are partitioned by."""
    return [f"session_by_{_unquoted_name(name.lower())}" for name in window.partition_by]


def _unquoted_name(name: str) -> str:
    """Returns a column's name, or a name made from it if it needs quotes."""
    return (
        name if re.fullmatch(r"\w+", name) else "_".join([*re.findall(r"\w+", name), digest(name, length=8)])
    )


def slice_names(window: Window) -> list[str]:
    """Columns that assign a row to its windows.

    >>> from ..windows.window_arguments import make_window
    >>> slice_names(make_window("tumble", "ts", "1 hour")), slice_names(make_window("session", "ts", "1 hour"))
    (['event_time', 'expires_at', 'slice_end'], ['event_time'])
    """
    if window.merges:
        return [EVENT_TIME, *session_keys(window)]
    return [EVENT_TIME, EXPIRES_AT, SLICE_END, *([WINDOW_START] if window.grows else [])]


def timestamp_sql(micros: str) -> str:
    """SQL for an instant, from its microseconds."""
    return f"timestamp_micros({micros})"


def slice_columns(window: Window) -> dict[str, str]:
    """Maps the columns of `slice_names` to SQL over a row of ``input``."""
    time = f"input.{window.time}"
    ts = window.micros(time)
    if window.merges:
        values = [time, *(f"input.{quote(name)}" for name in window.partition_by)]
    else:
        end = window.slice_end(ts)
        values = [time, timestamp_sql(window.last_end(f"({end})")), timestamp_sql(end)]
        values += [timestamp_sql(window.start(ts))] if window.grows else []
    return dict(zip(slice_names(window), values, strict=True))


def sliced_input(select: exp.Select, window: Window) -> exp.Select:
    """Returns the input rows of a windowing TVF with their slices, and the window columns that a row has before its
    windows close."""
    ts = window.micros(f"input.{window.time}")
    items = {hidden_slice_name(name): text for name, text in slice_columns(window).items()}
    known_early = columns_known_before_closing(window)
    if WINDOW_START in known_early:
        items[WINDOW_START] = window.instant(window.start(ts))
    if WINDOW_END in known_early:
        end = window.latest_instant(f"({window.slice_end(ts)})")
        items |= {WINDOW_END: end, WINDOW_TIME: f"{end} - interval 1 microsecond"}
    made = _without_window_columns(hints.window_input(select))
    for name, text in items.items():
        # Generated text that nothing reads as a tree.
        made.append("expressions", exp.alias_(exp.Var(this=text), name))
    return made


def _without_window_columns(rows: exp.Expr) -> exp.Select:
    """Returns rows with the alias ``input``, without the columns that a windowing TVF replaces."""
    below = with_null_window_columns("select * from below", "below")
    made = parse(f"select input.* {LEAVING_OUT} from {below} as input")
    assert isinstance(made, exp.Select)
    read = next(every(made, exp.Table)).find_ancestor(exp.Select)
    assert read is not None
    read.replace(rows.copy())
    return made


def columns_known_before_closing(window: Window) -> frozenset[str]:
    """Returns the window columns that follow from a row alone: in a hop, for example, a row is in several windows."""
    if window.is_one_slice:
        return frozenset({WINDOW_START, WINDOW_END, WINDOW_TIME})
    return frozenset({WINDOW_START}) if window.has_known_start else frozenset()


class AggregateBuilder:
    """Splits one SELECT: keys, metrics, distinct sets, and the SQL below and above them."""

    def __init__(
        self,
        select: exp.Select,
        sources: Sequence[FromRelation],
        window: Window | None,
        has_retractions: bool = False,
    ) -> None:
        """Reads a SELECT. `window` is None for a group aggregation; otherwise the bounds of the window are keys of each
        grouping set. With `has_retractions`, input rows may be retractions.

        Raises:
            QueryError: the SELECT isn't valid SQL.
        """
        self.select, self.sources, self.window, self.has_retractions = (
            select,
            sources,
            window,
            has_retractions,
        )
        self.unqualified = unambiguous_names(select)
        self.text = SourceText(select)
        self.why_rows_are_stored: str | None = None
        """Why the SELECT can't be stored as partial aggregates; None if it can. If there is a reason, nothing else of the
        builder may be read."""
        self._read_clauses(())
        if self.names.ambiguous:
            self._read_clauses(frozenset(self.names.ambiguous))

    def _read_clauses(self, ambiguous: Collection[str]) -> None:
        """Reads the clauses of the SELECT, without the names in `ambiguous`, which two expressions would get."""
        self.key_columns: dict[str, str] = {}
        self.session_keys: tuple[str, ...] = ()
        self.names = ContentNames([*RESERVED, *(session_keys(self.window) if self.window else ())], ambiguous)
        self.row_columns: dict[tuple[str, str], tuple[exp.Expr, str]] = {}
        self.keys: list[Key] = []
        self.metrics: dict[str, Metric] = {}
        self.sets: dict[str, DistinctSet] = {}
        self._read_group_by()
        self.items: list[exp.Expr] = []
        for item in self.select.expressions:
            if self.why_rows_are_stored is None:
                self.items.append(self._rewrite_item(item))
        having = self.select.args.get("having")
        self.having = self._rewrite(having.this) if having and self.why_rows_are_stored is None else None

    def _note_why_rows_are_stored(self, reason: str) -> None:
        """Notes why rows have to be stored, if it is the first reason."""
        self.why_rows_are_stored = self.why_rows_are_stored or reason

    # -- results -----------------------------------------------------------------------------------

    @property
    def distinct_sets(self) -> tuple[DistinctSet, ...]:
        """Distinct sets in the order of their first use."""
        return tuple(self.sets.values())

    @property
    def source(self) -> str:
        """Text of the input rows with the columns that keys and times need."""
        return self.text.rows_text(self.fixed)

    def output(self, relation: str) -> exp.Select:
        """Returns the author's select list and HAVING over the finished windows."""
        query = self.output_over(exp.Table(this=exp.to_identifier(relation)))
        break_ties(query)
        break_ties_of_extremes(query)
        return query

    def output_over(self, relation: exp.Expr) -> exp.Select:
        """Returns the author's select list and HAVING over `relation`, as a tree."""
        query = exp.Select(expressions=self.items)
        if self.select.args.get("distinct"):
            query.set("distinct", exp.Distinct())
        query = query.from_(relation)
        return query if self.having is None else query.where(self.having)

    def rows_query(self, also: Sequence[str] = ()) -> exp.Select:
        """Query for the input rows, with the hidden columns `also`."""
        query = copied(self.select)
        if self.window:
            query, also = _with_slices(query, self.window), slice_names(self.window)
        for clause in ("group", "having", "order", "distinct", "hint", "limit"):
            query.set(clause, None)
        items: list[tuple[exp.Expr, str]] = [(exp.column(hidden_slice_name(name)), name) for name in also]
        items += [(copied(node), name) for node, name in self.row_columns.values()]
        query.set("expressions", [exp.alias_(node, name, quoted=True, copy=False) for node, name in items])
        if not items:
            # A SELECT needs a column even if COUNT(*) reads none.
            query.set("expressions", [exp.alias_(exp.true(), "anything")])
        return query

    # -- GROUP BY ----------------------------------------------------------------------------------

    def _read_group_by(self) -> None:
        found = grouping(self.select)
        windows = [window_column(key, self.sources) if self.window else None for key in found.keys]
        names: dict[int, str] = {}
        for index, key in enumerate(found.keys):
            if windows[index] is None:
                if key.find(exp.AggFunc, exp.Window):
                    raise QueryError(
                        f"GROUP BY '{sql(key)}' holds an aggregate or a function of other rows; group by columns and "
                        "expressions over rows."
                    )
                names[index] = self.row_column(key, role=_KEY)
                self.keys.append(Key(names[index], copied(key), self.text.expression_text(key)))
        self.grouping_sets: tuple[tuple[str, ...], ...] | None = None
        if found.sets is not None:
            self.grouping_sets = tuple(
                tuple(names[i] for i in members if i in names) for members in found.sets
            )
            if len(set(map(frozenset, self.grouping_sets))) < len(self.grouping_sets):
                self._note_why_rows_are_stored("a grouping set is listed twice")
        self._find_session_keys(found.keys, names)
        times = [split_path(self.window.time)[0], *self.window.partition_by] if self.window else []
        of_keys = possible_columns(*found.keys)
        self.fixed = None if of_keys is None else of_keys | {name.lower() for name in times}
        """Columns of keys and times, which all aggregates need; None if all columns are needed."""
        self.key_of = {self._canonical(key): names[i] for i, key in enumerate(found.keys) if i in names}
        self.order = [names.get(i) for i in range(len(found.keys))]

    def _find_session_keys(self, keys: Sequence[exp.Expr], names: Mapping[int, str]) -> None:
        """Sets `session_keys` to the group keys that sessions are partitioned by."""
        if self.window is None or not self.window.merges:
            return
        sets = self.grouping_sets or [[key.name for key in self.keys]]
        for name in self.window.partition_by:
            columns = [
                names[n]
                for n, key in enumerate(keys)
                if n in names and _is_column_of_window_input(key, self.select, name)
            ]
            in_all = [each for each in columns if all(each in members for members in sets)]
            self.session_keys += tuple([*in_all, *columns][:1])
            if self.window.grows and not in_all:
                self._note_why_rows_are_stored(
                    f"dynamic_cumulate() partitioned by {name}, which is not a key of every grouping set"
                )

    # -- select list -------------------------------------------------------------------------------

    def _rewrite_item(self, item: exp.Expr) -> exp.Expr:
        if item.is_star:
            self._note_why_rows_are_stored("'*' in the select list of a GROUP BY")
            return item
        rewritten = self._rewrite(item.unalias())
        if (name := self._group_key_name(item.unalias())) is not None:
            self.key_columns[item.alias_or_name.lower()] = name
        return exp.alias_(rewritten, output_name(item) or sql(item), quoted=True)

    def _group_key_name(self, node: exp.Expr) -> str | None:
        """Returns the group key that an expression is, ``grouping_id`` if it identifies the grouping set, or None."""
        if not isinstance(node, exp.Grouping | exp.GroupingId):
            return self.key_of.get(self._canonical(node))
        keys = {self.key_of.get(self._canonical(item)) for item in arguments(node)} or set(self.order)
        sets = self.grouping_sets or ()
        varying = {key.name for key in self.keys if not all(key.name in members for members in sets)}
        return GROUPING_ID if varying <= keys else None

    def _rewrite(self, node: exp.Expr, aliases: bool = True) -> exp.Expr:
        """Returns an expression over finished windows, with keys, metrics and window columns by name."""
        if is_name(node):
            return node.copy()
        if (name := self.key_of.get(self._canonical(node))) is not None:
            return exp.column(name, quoted=True)
        if self.window and (kind := window_column(node, self.sources)):
            return exp.column(kind)
        if isinstance(node, exp.Column):
            for item in self.select.expressions if aliases else ():
                if isinstance(item, exp.Alias) and not node.table and item.alias.lower() == node.name.lower():
                    return exp.paren(self._rewrite(item.this, aliases=False))
            self._note_why_rows_are_stored(f"'{sql(node)}' is neither grouped nor aggregated")
            return node
        if isinstance(node, exp.Query):
            self._note_why_rows_are_stored("a subquery in the select list")
            return node
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping_bits(node)
        if isinstance(node, (exp.AggFunc, *AROUND)):
            name = self._add_metric(node)
            return node if name is None else exp.column(name, quoted=True)
        if isinstance(node, exp.Window):
            return self._rewrite_over(node, aliases)
        copy = node.copy()
        exp.replace_children(copy, self._rewrite, aliases)
        return copy

    def _rewrite_over(self, node: exp.Window, aliases: bool) -> exp.Expr:
        """Returns an OVER over finished windows, as ``sum(count(*)) over (…)``: its function is no metric."""
        copy = node.copy()
        call = copy.this.this if isinstance(copy.this, exp.IgnoreNulls | exp.RespectNulls) else copy.this
        clauses = (copy.args[name] for name in ("order", "spec") if copy.args.get(name))
        for child in (*call.iter_expressions(), *(copy.args.get("partition_by") or ()), *clauses):
            child.replace(self._rewrite(child, aliases))
        return copy

    def _grouping_bits(self, node: exp.Expr) -> exp.Expr:
        named = keys_of_grouping(
            node, self.grouping_sets is not None, lambda item: self.key_of.get(self._canonical(item))
        )
        of_sets = [key.name for key in self.keys]
        is_id = isinstance(node, exp.GroupingId)
        names = self.order if is_id and not named else named
        if is_id and names == of_sets:
            return exp.column(GROUPING_ID)
        bits: list[exp.Expr] = []
        for place, name in enumerate(reversed(names)):
            if name is not None:
                shift = len(of_sets) - 1 - of_sets.index(name)
                shifted = exp.func(
                    "shiftright", exp.column(GROUPING_ID), exp.Literal.number(shift), dialect=DIALECT
                )
                bit = exp.BitwiseAnd(this=shifted, expression=exp.Literal.number(1))
                bits.append(exp.func("shiftleft", bit, exp.Literal.number(place), dialect=DIALECT))
        total = reduce(
            lambda left, right: exp.Add(this=left, expression=right), bits or [exp.Literal.number(0)]
        )
        return exp.cast(total, "bigint" if is_id else "tinyint", dialect=DIALECT)

    # -- aggregates --------------------------------------------------------------------------------

    def _add_metric(self, node: exp.Expr) -> str | None:
        """Returns the name of the metric that stores an aggregate; None if it isn't stored as partial aggregates.

        Raises:
            QueryError: it is an aggregate of an aggregate.
        """
        wrapped = unwrap_call(node)
        call, condition = wrapped.function, wrapped.condition
        name = function_name(call)
        distinct = is_distinct(call) and name not in PLAIN_WHEN_DISTINCT
        args = arguments(call)
        types = types_of(call) if name in TYPED else None
        reason = _why_not_mergeable(call, types, distinct, within=bool(wrapped.order))
        if reason is not None:
            self._note_why_rows_are_stored(reason)
            return None
        key = self._canonical(node)
        if key in self.metrics:
            return self.metrics[key].name
        if types is not None and distinct and types.argument.startswith("string"):
            # Spark deduplicates the numbers, not the texts: '1' and '1.0' are one value.
            args = [exp.cast(arg.copy(), "double", dialect=DIALECT) for arg in args]
        if any(arg.find(exp.AggFunc, exp.Window) for arg in args):
            raise QueryError(
                f"'{sql(node)}' is an aggregate of an aggregate; compute the inner one in a subquery."
            )
        columns = tuple("*" if isinstance(arg, exp.Star) else self.row_column(arg) for arg in args)
        where = self.row_column(condition) if condition is not None else None
        # An aggregate whose state can't retract is computed from the counts of values.
        by_value = distinct or (self.has_retractions and name not in RETRACTABLE)
        values = ", ".join(self.text.expression_text(arg) for arg in args)
        set_name = self._add_distinct_set(columns, values) if by_value else None
        identity, unqualified = self._identities(node, key)
        metric = Metric(
            name="",
            function=name,
            arguments=columns,
            filter=where,
            distinct_set=set_name,
            call=copied(node),
            distinct=distinct,
            has_retractions=self.has_retractions,
            types=types,
            identity=identity,
            unqualified=unqualified,
            rows=self._text_of_rows_for(node),
        )
        suffixes = [*MetricColumns(metric).suffixes, *(FLAGS if by_value else ())]
        metric = replace(metric, name=self.names.new(key, suffixes=suffixes))
        self.metrics[key] = metric
        if set_name is not None:
            self._add_flag(", ".join(columns), metric)
        return metric.name

    def _identities(self, node: exp.Expr, key: str) -> tuple[str, str]:
        """Returns text that identifies an aggregate, and the same without the relations of its columns: with the author's
        text if another aggregate of equal text may differ."""
        identity, unqualified = (self.text.expression_text(node, qualified) for qualified in (True, False))
        is_taken = any(other.identity == identity for other in self.metrics.values())
        written = f" written {key}" if is_taken else ""
        return identity + written, unqualified + written

    def _text_of_rows_for(self, node: exp.Expr) -> str:
        """Text of the input rows with the columns that an aggregate needs."""
        columns = possible_columns(node)
        needed = None if columns is None or self.fixed is None else self.fixed | columns
        return self.text.rows_text(needed)

    def _add_distinct_set(self, columns: tuple[str, ...], values: str) -> str:
        key = ", ".join(columns)
        if key not in self.sets:
            name = self.names.new("distinct_" + "_".join(columns), f"DISTINCT {values}", FLAGS)
            self.sets[key] = DistinctSet(name, columns, (), values)
        return self.sets[key].name

    def _add_flag(self, key: str, metric: Metric) -> None:
        found = self.sets[key]
        if not self.has_retractions:
            flag = Flag(metric.name, metric.filter)
        elif metric.filter in found.filters:
            return
        else:
            flag = Flag(f"{found.name}_{metric.filter}" if metric.filter else found.name, metric.filter)
        self.sets[key] = replace(found, flags=(*found.flags, flag))

    # -- rows --------------------------------------------------------------------------------------

    def row_column(self, node: exp.Expr, role: str = "argument") -> str:
        """Returns the input column with an expression, added if needed. A key gets another column than an argument, because
        grouping sets make it NULL."""
        known = columns_known_before_closing(self.window) if self.window else frozenset()
        for column in every(node, exp.Column) if self.window else ():
            kind = window_column(column, self.sources)
            if kind and kind not in known:
                self._note_why_rows_are_stored(f"'{sql(node)}' uses {kind} below the aggregate")
        if node.find(exp.Query):
            self._note_why_rows_are_stored(f"'{sql(node)}' holds a subquery")
        key = (role, self._canonical(node))
        if key not in self.row_columns:
            name = node.name if isinstance(node, exp.Column) else self._canonical(node)
            identity = f"{role} {self._canonical(node)}"
            self.row_columns[key] = (copied(node), self.names.new(name, identity, fixed=role == _KEY))
        return self.row_columns[key][1]

    def _canonical(self, node: exp.Expr) -> str:
        return canonical(node, self.unqualified)


def _is_column_of_window_input(node: exp.Expr, select: exp.Select, name: str) -> bool:
    """Whether an expression of a SELECT over a windowing TVF is the TVF's column `name`. Queries in between may have renamed
    it."""
    rows = next(each for each in relations(select) if next(hints.windows_under(each), None))
    if not isinstance(node, exp.Column) or node.table.lower() not in ("", rows.alias_or_name.lower()):
        return False
    inner = rows.unnest()
    assert isinstance(inner, exp.Select)
    if hints.window_of(inner):
        return node.name.lower() == name.lower()
    named = [item for item in inner.expressions if output_name(item).lower() == node.name.lower()]
    below = named[0].unalias() if named else exp.column(node.this.copy())
    return _is_column_of_window_input(below, inner, name)


def _with_slices(select: exp.Select, window: Window) -> exp.Select:
    """Returns the SELECT over sliced rows. It selects the hidden slice columns, but no window columns that are unknown
    before the window closes."""
    for node in relations(select):
        inner = node.unnest()
        if not isinstance(node, exp.Subquery) or not isinstance(inner, exp.Select):
            continue
        if hints.window_of(inner):
            inner.replace(sliced_input(inner, window))
            break
        if next(hints.windows_under(inner), None):
            rows = next(each for each in relations(inner) if next(hints.windows_under(each), None))
            _pass_slice_columns(_with_slices(inner, window), window, rows.alias_or_name.lower())
            break
    return select


def _pass_slice_columns(select: exp.Select, window: Window, rows: str) -> None:
    """Adds the hidden slice columns of the relation with the alias `rows_query` to a select list."""
    unknown = {WINDOW_START, WINDOW_END, WINDOW_TIME} - columns_known_before_closing(window)
    items = [item for item in select.expressions if output_name(item).lower() not in unknown]
    # A star over this relation includes the hidden columns.
    if not any(is_star_over(item, rows) for item in items):
        items += [exp.column(hidden_slice_name(name), quoted=True) for name in slice_names(window)]
    select.set("expressions", items)


def why_not_before_closing(
    select: exp.Select, window: Window, sources: Sequence[FromRelation], items: Sequence[exp.Expr]
) -> str | None:
    """Returns why WHERE, joins and `items` of a SELECT over a windowing TVF can't be applied row by row before its windows
    close; None if they can. One of them may use a window column that isn't known before."""
    if window.merges and any(select.args.get(clause) for clause in ("where", "joins", "laterals")):
        return f"a WHERE or JOIN between {window.kind}() and GROUP BY: the windows' bounds also depend on rows that it drops"
    known = columns_known_before_closing(window)
    unknown = {WINDOW_START, WINDOW_END, WINDOW_TIME} - known
    for item in items:
        name = output_name(item).lower()
        if name in unknown and window_column(item.unalias(), sources) != name:
            return f"'{sql(item)}' has the name of a window's column below the aggregate"
    for node in [*items, *_conditions(select)]:
        for column in every(node, exp.Column):
            kind = window_column(column, sources)
            plain = node is column or (isinstance(node, exp.Alias) and node.this is column)
            if kind and kind not in known and not (plain and output_name(node).lower() == kind):
                return f"'{sql(node)}' uses {kind} below the aggregate"
    return None


def _conditions(select: exp.Select) -> list[exp.Expr]:
    """Returns the clauses over rows besides the select list: WHERE, join conditions and laterals."""
    on = (join.args.get("on") for join in select.args.get("joins") or ())
    parts = (select.args.get("where"), *on, *(select.args.get("laterals") or ()))
    return [part for part in parts if part is not None]


def _why_not_mergeable(call: exp.Expr, types: Types | None, distinct: bool, within: bool) -> str | None:
    """Returns why a call can't be stored as partial aggregates; None if it can.

    Args:
        types: types that its partial aggregates depend on; None if they depend on none.
        distinct: whether it is over distinct values.
        within: whether it is in WITHIN GROUP.

    Raises:
        QueryError: it has too few arguments.
    """
    name, args = function_name(call), arguments(call)
    if within or name not in (DISTINCT if distinct else KEPT):
        return f"{name}({'DISTINCT …' if distinct else '…'}) is not kept as partial aggregates"
    count = 2 if name.endswith("_by") else 1
    if len(args) < count:
        raise QueryError(f"'{sql(call)}' has too few arguments: {name} takes {count}.")
    if len(args) > count and name != "count":
        return f"'{sql(call)}' has more arguments than are kept as partial aggregates"
    if distinct and (any(arg.find(exp.Star) for arg in args) or (len(args) > 1 and name != "count")):
        return f"'{sql(call)}' is not kept as a distinct set"
    if types is not None and name != "sum" and not types.divides_exactly:
        return (
            f"the {types.result} of '{sql(call)}' has more digits than a quotient of sum and count, so it is not kept "
            "as partial aggregates"
        )
    return None
