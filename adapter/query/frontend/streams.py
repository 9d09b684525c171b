"""Finds a query's streams, gives each a view name, and decides which columns and event time it is read with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from sqlglot import exp

from ...util.quoting import is_path, split_path
from ..errors import QueryError
from ..program import BATCH_ID, CHANGE_TYPE
from ..sql.clauses import name_at_same_place, output_name, output_names, relations
from ..sql.nodes import every, selects_around
from . import hints


@dataclass(frozen=True)
class RelationInfo:
    """Properties of a relation that the project declares."""

    event_time: str | None = None
    """The event time column, from dbt's config ``event_time``."""
    key: tuple[str, ...] = ()
    """The upsert key: a row replaces the previous row with equal values. Empty for append-only relations."""
    changes: bool = False
    """Whether the relation is read through its changelog."""
    lookup: bool = False
    """Whether it is an external table, read by lookup joins."""
    columns: tuple[str, ...] = ()
    """Columns whose names generated SQL may use as well (`own_names`). Empty if its columns are unknown."""
    conflict: str | None = None
    """The message if the project's declarations contradict each other."""

    @property
    def replaces(self) -> bool:
        """Whether rows replace earlier ones: an updating table."""
        return self.changes or bool(self.key)


_NUMBER = "window_number"


class Streams:
    """Replaces each stream in a tree by its view name. Changes the tree."""

    def __init__(self, tree: exp.Query, known: Mapping[str, RelationInfo] | None = None) -> None:
        self._identifiers = {node.this.lower() for node in every(tree, exp.Identifier)}
        self._stars = _extent_of_stars(tree)
        self._times: dict[str, dict[int, str | None]] = {}
        self._known = {relation.lower(): found for relation, found in (known or {}).items()}
        self._unqualified = {table.name.lower() for table in every(tree, exp.Table) if not table.db}
        self.streams: dict[str, Stream] = {}
        """Streams by relation name, in lower case."""
        self.static: dict[str, None] = {}
        """Relations that the query reads as tables, in the order of the text."""
        for number, select in enumerate(every(tree, exp.Select)):
            window = hints.window_of(select)
            if window:
                select.meta[_NUMBER] = number
                below = hints.window_input(select)
                plain = next(hints.windows_under(below), None) is None and _passes_rows(below)
                for table in every(below, exp.Table) if plain else ():
                    if hints.is_stream(table):
                        column = stream_column(below, window.time_col, table)
                        times = self._times.setdefault(hints.relation_name(table).lower(), {})
                        # Branches of one UNION ALL may use different columns.
                        times[number] = column if times.get(number, column) == column else None
        for table in list(every(tree, exp.Table)):
            relation = hints.relation_name(table)
            if not hints.is_stream(table):
                self.static.setdefault(relation)
                continue
            self._replace_by_view(table, relation)

    def _replace_by_view(self, table: exp.Table, relation: str) -> None:
        stream = self.streams.get(relation.lower())
        if stream is None:
            letters = (char if char.isascii() and char.isalnum() else "_" for char in table.name.lower())
            view = "stream_" + "".join(letters)
            # A view hides a table that the text reads by the same name.
            while view in self._unqualified or any(view == other.view for other in self.streams.values()):
                view += "_2"
            stream = self.streams[relation.lower()] = Stream(relation, view, None, None)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=table.this.quoted)))
        table.set("this", exp.to_identifier(stream.view))
        table.set("db", None)
        table.set("catalog", None)

    def copy(self, declared: bool = True) -> Streams:
        """Returns the same streams, for another planner of the tree.

        Args:
            declared: whether to keep the project's declarations. Without them, only windows say which columns are
                event times.
        """
        made = copy(self)
        made._times = {relation: {**times} for relation, times in self._times.items()}
        made._known = self._known if declared else {}
        return made

    def check_declarations(self) -> None:
        """Raises `QueryError` if the project's declarations of a stream contradict each other."""
        for stream in self.streams.values():
            if conflict := self.known(stream.view).conflict:
                raise QueryError(conflict)

    def known(self, view: str) -> RelationInfo:
        """Returns the project's declarations of the stream with this view."""
        return self._known.get(self.relation(view).lower(), RelationInfo())

    def relation(self, view: str) -> str:
        """Returns the relation of the stream with this view; an empty text if there is none."""
        return next((stream.relation for stream in self.streams.values() if stream.view == view), "")

    def exclude_from_watermark(self, window: exp.Select) -> None:
        """Ignores a windowing TVF for event times: its time column isn't a measure of its streams' progress."""
        for times in self._times.values():
            times.pop(window.meta_get(_NUMBER, -1), None)

    def is_measured_on(self, relation: str, column: str) -> bool:
        """Whether the stream's watermark can only be measured on this column, because no window uses another one."""
        times = self._times.get(relation.lower(), {}).values()
        return all(each is not None and each.lower() == column.lower() for each in times)

    def read(self, whole_rows: bool) -> tuple[Stream, ...]:
        """Returns the streams with the columns to read. With `whole_rows`, a plain star means all columns."""
        columns: tuple[str, ...] | None = None
        if self._stars != "all" and not (self._stars == "plain" and whole_rows):
            columns = tuple(sorted(self._identifiers))
        return tuple(
            replace(
                stream,
                columns=self._with_needed_columns(stream, columns),
                event_time=self._event_time(stream),
                feed=self.known(stream.view).changes,
            )
            for stream in self.streams.values()
        )

    def _with_needed_columns(self, stream: Stream, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Adds columns that are needed although the query may not name them."""
        if columns is None:
            return None
        known = self.known(stream.view)
        time = known.event_time
        own = {name.lower() for name in known.key}
        if time:
            own.add((split_path(time)[0] if is_path(time) else time).lower())
        if known.changes:
            own |= {CHANGE_TYPE, BATCH_ID}
        return tuple(sorted({*columns, *own}))

    def _event_time(self, stream: Stream) -> str | None:
        columns = set(self._times.get(stream.relation.lower(), {}).values())
        if not columns:
            return self.known(stream.view).event_time
        named = sorted(column for column in columns if column is not None)
        return named[0] if None not in columns and len({*map(str.lower, named)}) == 1 else None


def _passes_rows(query: exp.Expr) -> bool:
    """Whether a query passes its streams' rows through one by one, so that a time column may be the stream's."""
    cut = ("limit", "offset", "fetch")
    if any(each.args.get(clause) for each in every(query, exp.SetOperation) for clause in cut):
        return False
    return all(
        not any(select.args.get(clause) for clause in ("group", "distinct", "having", "qualify", *cut))
        and sum(map(hints.reads_stream, relations(select))) == 1
        and not any(every(select, exp.Window))
        for select in every(query, exp.Select)
        if hints.reads_stream(select)
    )


def _extent_of_stars(tree: exp.Query) -> str:
    """Returns how far the author's stars read columns: "none", "plain" (only in select lists), or "all"."""
    found = "none"
    for star in every(tree, exp.Star):
        holder = star.parent if isinstance(star.parent, exp.Column) else star
        parent = holder.parent
        if isinstance(parent, exp.Count):
            continue
        select = parent if isinstance(parent, exp.Select) else None
        if select is not None and (hints.window_of(select) or hints.is_marked_as_stream(select)):
            continue
        if (select is not None and _is_input_of_window(select)) or is_printed_by_macro(holder):
            continue
        around = select.parent if select is not None else None
        while isinstance(around, exp.Subquery):
            around = around.parent
        if select is None or select.args.get("distinct") or isinstance(around, exp.SetOperation):
            return "all"
        if around is not None and not isinstance(around, exp.From | exp.Join | exp.Exists):
            if hints.reads_stream(select):
                return "all"  # a scalar subquery reads its column under any name
        if not _needs_only_named_columns(select):
            found = "plain"
    return found


def _needs_only_named_columns(select: exp.Select) -> bool:
    """Whether a SELECT's star below a windowing TVF needs only the columns that are named above. Not where ROW_NUMBER
    breaks ties by all columns."""
    numbered = any(isinstance(each.this, exp.RowNumber) for each in every(select, exp.Window))
    return _window_above(select) is not None and not numbered and not select.args.get("limit")


def is_printed_by_macro(node: exp.Expr) -> bool:
    """Whether a node belongs to text that a windowing macro printed around its relation."""
    inside: list[exp.Select] = []
    for select in (*([node] if isinstance(node, exp.Select) else ()), *selects_around(node)):
        if hints.window_of(select):
            is_input = any(hints.window_input(select) is each for each in inside)
            return not (is_input or _is_input_of_window(select))
        inside.append(select)
    return False


def _is_input_of_window(select: exp.Select) -> bool:
    over = _window_above(select)
    return over is not None and hints.window_input(over) is select


def _window_above(select: exp.Select) -> exp.Select | None:
    """The windowing TVF that a SELECT is the input of, directly or further below."""
    return next((each for each in selects_around(select) if hints.window_of(each)), None)


def stream_column(below: exp.Expr, column: str, table: exp.Table | None = None) -> str | None:
    """Resolves a time column to the stream's column, through SELECTs that pass it unchanged.

    Args:
        table: the stream, if there may be several. UNION ALL matches columns by position.

    Returns:
        The stream's column. None if it is computed or ambiguous.
    """
    node: exp.Expr = below
    while True:
        while isinstance(node, exp.Subquery):
            renamed = _name_below_alias(node, column)
            if renamed is None:
                return None
            node, column = node.this, renamed
        if isinstance(node, exp.SetOperation):
            sides = (node.this, node.expression)
            branch = next((each for each in sides if any(t is table for t in every(each, exp.Table))), None)
            if branch is None:
                return None
            column = _column_at_same_position(column, node, branch) or ""
            node = branch
            continue
        if isinstance(node, exp.Table):
            return column if hints.is_stream(node) else None
        if not isinstance(node, exp.Select) or hints.window_result_of(node):
            return None
        sources = relations(node)
        streams = [*filter(hints.reads_stream, sources)]
        if len(streams) != 1:
            return None
        others = [each for each in sources if each is not streams[0]]
        passed = _column_below(node, column, streams[0], others)
        if passed is None:
            return None
        node, column = streams[0], passed


def _name_below_alias(node: exp.Subquery, column: str) -> str | None:
    """Returns the name inside the subquery of a column of ``(…) AS t(a, b)``. None if it can't be resolved."""
    names = node.alias_column_names
    return name_at_same_place(column, names, output_names(node.this)) if names else column


def _column_below(
    select: exp.Select, column: str, stream: exp.Expr, others: Sequence[exp.Expr]
) -> str | None:
    """Returns the stream's column that a column of the SELECT is. None if it is another relation's, or computed.

    An unqualified column is the stream's unless another relation is known to have one of that name.
    """
    named = [item for item in select.expressions if output_name(item).lower() == column.lower()]
    columns = [named[0].unalias()] if named else [item for item in select.expressions if item.is_star]
    of_others = [name for each in select.args.get("laterals") or () for name in each.alias_column_names]
    of_others += [name for each in others for name in output_names(each)]
    for found in columns:
        if isinstance(found, exp.Column | exp.Star):
            name = column if found.is_star else found.name
            qualifier = found.table.lower() if isinstance(found, exp.Column) else ""
            is_own = qualifier == stream.alias_or_name.lower()
            if is_own if qualifier else name.lower() not in map(str.lower, of_others):
                return name
    return None


def _column_at_same_position(column: str, node: exp.SetOperation, branch: exp.Expr) -> str | None:
    """Returns a branch's name for a column of a UNION ALL. None if it can't be resolved. With stars, columns of the
    same name are assumed to be at the same position."""
    if branch is node.this:
        return column
    first, own = output_names(node.this), output_names(branch)
    if "*" in first or "*" in own:
        return column if first == own else None
    return name_at_same_place(column, first, own) or None


@dataclass(frozen=True)
class Stream:
    """A relation that is read as a stream."""

    relation: str
    """The relation's name in the compiled text."""
    view: str
    """View with the rows of one micro-batch."""
    columns: tuple[str, ...] | None
    """Columns the query may use. None for all."""
    event_time: str | None
    """Event time column that the first windows use. None if the time is computed."""
    feed: bool = False
    """Whether its changelog is read."""
