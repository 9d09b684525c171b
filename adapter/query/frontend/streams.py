"""The streams of a query: each gets a view's name, and what is known of its columns and times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ...util.quoting import is_path, path_of
from ..errors import QueryError
from ..program import BATCH_ID, CHANGE_TYPE
from ..sql.clauses import output_names, relations
from ..sql.nodes import every
from . import hints


@dataclass(frozen=True)
class Known:
    """What the project says of a relation."""

    event_time: str | None = None
    """The column of its event time, by dbt's config of that name."""
    key: tuple[str, ...] = ()
    """A row replaces the one before it that has the same values here; none: rows only ever come."""
    changes: bool = False
    """Whether it is read through its change feed."""
    lookup: bool = False
    """Whether it is a table outside, which joins ask for keys."""
    columns: tuple[str, ...] = ()
    """Those of its columns that generated SQL may call its own so (`own_names`), where that is known."""
    conflict: str | None = None
    """Why it can't be told which of several things holds that the project says of it."""

    @property
    def replaces(self) -> bool:
        """Whether its rows take the place of others."""
        return self.changes or bool(self.key)


_NUMBER = "window_number"


class Streams:
    """Gives each stream of a tree a view, and its tables that name. Changes the tree."""

    def __init__(self, tree: exp.Query, known: Mapping[str, Known] | None = None) -> None:
        self._identifiers = {node.this.lower() for node in every(tree, exp.Identifier)}
        self.stage = _stage_name(tree)
        """What stages of windows are called, before their numbers."""
        self._stars = _free_stars(tree)
        self._times: dict[str, dict[int, str | None]] = {}
        self._known = {relation.lower(): found for relation, found in (known or {}).items()}
        self.streams: dict[str, Stream] = {}
        """By relation, in lower case."""
        self.static: dict[str, None] = {}
        """The other relations."""
        for number, select in enumerate(every(tree, exp.Select)):
            window = hints.window_of(select)
            if window:
                select.meta[_NUMBER] = number
                below = hints.input_of(select)
                plain = next(hints.windows_under(below), None) is None and _passes_rows(below)
                for table in every(below, exp.Table) if plain else ():
                    if hints.is_stream(table):
                        column = column_of_stream(below, window.time_col, table)
                        times = self._times.setdefault(hints.relation_name(table).lower(), {})
                        # Several branches of one UNION ALL may take several.
                        times[number] = column if times.get(number, column) == column else None
        for table in list(every(tree, exp.Table)):
            relation = hints.relation_name(table)
            if not hints.is_stream(table):
                self.static.setdefault(relation)
                continue
            self._name(table, relation)

    def _name(self, table: exp.Table, relation: str) -> None:
        stream = self.streams.get(relation.lower())
        if stream is None:
            if conflict := self._known.get(relation.lower(), Known()).conflict:
                raise QueryError(conflict)
            view = "stream_" + "".join(char if char.isalnum() else "_" for char in table.name.lower())
            while any(view == other.view for other in self.streams.values()):
                view += "_2"
            stream = self.streams[relation.lower()] = Stream(relation, view, None, None)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=table.this.quoted)))
        table.set("this", exp.to_identifier(stream.view))
        table.set("db", None)
        table.set("catalog", None)

    def known(self, view: str) -> Known:
        """What the project says of the stream with a view."""
        relation = next((stream.relation for stream in self.streams.values() if stream.view == view), "")
        return self._known.get(relation.lower(), Known())

    def passes_no_time(self, window: exp.Select) -> None:
        """Notes that the time of a window function says nothing of how far its streams have come."""
        for times in self._times.values():
            times.pop(window.meta_get(_NUMBER, -1), None)

    def is_measured_on(self, relation: str, column: str) -> bool:
        """Whether the watermark of a stream is surely measured on a column: no window takes another one of its rows."""
        times = self._times.get(relation.lower(), {}).values()
        return all(each is not None and each.lower() == column.lower() for each in times)

    def read(self, whole_rows: bool) -> tuple[Stream, ...]:
        """The streams with the columns that are read of them; `whole_rows`: a plain star means all."""
        columns: tuple[str, ...] | None = None
        if self._stars != "all" and not (self._stars == "plain" and whole_rows):
            columns = tuple(sorted(self._identifiers))
        return tuple(
            replace(
                stream,
                columns=self._with_own(stream, columns),
                event_time=self._event_time(stream),
                feed=self.known(stream.view).changes,
            )
            for stream in self.streams.values()
        )

    def _with_own(self, stream: Stream, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """What a query may not name and yet is needed."""
        if columns is None:
            return None
        known = self.known(stream.view)
        times = [path_of(time)[0] if is_path(time) else time for time in [known.event_time] if time]
        own = {name.lower() for name in (*times, *known.key)}
        if known.changes:
            own |= {CHANGE_TYPE, BATCH_ID}
        return tuple(sorted({*columns, *own}))

    def _event_time(self, stream: Stream) -> str | None:
        columns = set(self._times.get(stream.relation.lower(), {}).values())
        if not columns:
            return self.known(stream.view).event_time
        named = sorted(column for column in columns if column is not None)
        return named[0] if None not in columns and len({*map(str.lower, named)}) == 1 else None


def _stage_name(tree: exp.Query) -> str:
    """A name that a query's text has nowhere before a number: a stage may be called otherwise wherever it is named."""
    said = " ".join(node.this.lower() for node in tree.walk() if isinstance(node.this, str))
    name = "stage"
    while re.search(rf"{name}_\d", said):
        name += "_x"
    return name


def _passes_rows(query: exp.Expr) -> bool:
    """Whether a query hands on the rows of its streams one by one, so that their time may be that of its rows."""
    return all(
        not any(select.args.get(clause) for clause in ("group", "distinct", "having", "qualify", "limit"))
        and sum(any(map(hints.is_stream, _tables(each))) for each in relations(select)) == 1
        and not any(every(select, exp.Window))
        for select in every(query, exp.Select)
        if any(map(hints.is_stream, _tables(select)))
    )


def _free_stars(tree: exp.Query) -> str:
    """How the query's own stars spread columns: "none", "plain" (only in select lists), or "all"."""
    found = "none"
    for star in every(tree, exp.Star):
        holder = star.parent if isinstance(star.parent, exp.Column) else star
        parent = holder.parent
        if isinstance(parent, exp.Count):
            continue
        select = parent if isinstance(parent, exp.Select) else None
        if select is not None and (hints.window_of(select) or hints.marked_as_stream(select)):
            continue
        if (select is not None and _is_input_of_window(select)) or is_printed(holder):
            continue
        around = select.parent if select is not None else None
        while isinstance(around, exp.Subquery):
            around = around.parent
        if select is None or select.args.get("distinct") or isinstance(around, exp.SetOperation):
            return "all"
        if around is not None and not isinstance(around, exp.From | exp.Join | exp.Exists):
            if hints.reads_stream(select):
                return "all"  # a value is asked for, whatever the column's name
        if not _only_hands_on(select):
            found = "plain"
    return found


def _only_hands_on(select: exp.Select) -> bool:
    """Whether the star of a SELECT below a window function brings nothing there but what is named above: where ROW_NUMBER
    numbers its rows, ties go by all of their columns."""
    numbered = any(isinstance(each.this, exp.RowNumber) for each in every(select, exp.Window))
    return _window_over(select) is not None and not numbered and not select.args.get("limit")


def is_printed(node: exp.Expr) -> bool:
    """Whether a node is of the text that a window macro prints around its relation."""
    select = node if isinstance(node, exp.Select) else node.find_ancestor(exp.Select)
    while select is not None and not _is_input_of_window(select):
        if hints.window_of(select):
            return True
        select = select.find_ancestor(exp.Select)
    return False


def _is_input_of_window(select: exp.Select) -> bool:
    over = _window_over(select)
    return over is not None and hints.input_of(over) is select


def _window_over(select: exp.Select) -> exp.Select | None:
    """The window function that a SELECT stands below, or is printed for."""
    over = select.find_ancestor(exp.Select)
    while over is not None and hints.window_of(over) is None:
        over = over.find_ancestor(exp.Select)
    return over


def column_of_stream(below: exp.Expr, column: str, table: exp.Table | None = None) -> str | None:
    """The column of the stream that a time column is, through SELECTs that only pass it on.

    Args:
        below: the query with the time column.
        column: the time column.
        table: the stream, where there may be several; UNION ALL takes columns by their place.
    """
    node: exp.Expr = below
    while True:
        while isinstance(node, exp.Subquery):
            renamed = _below_alias(node, column)
            if renamed is None:
                return None
            node, column = node.this, renamed
        if isinstance(node, exp.SetOperation):
            branch = _branch_with(node, table)
            if branch is None:
                return None
            column = _at_same_place(column, node, branch) or ""
            node = branch
            continue
        if isinstance(node, exp.Table):
            return column if hints.is_stream(node) else None
        if not isinstance(node, exp.Select) or hints.result_of(node):
            return None
        sources = relations(node)
        streams = [source for source in sources if any(hints.is_stream(t) for t in _tables(source))]
        if len(streams) != 1:
            return None
        stream = streams[0]
        passed = _column_below(node, column, stream, [each for each in sources if each is not stream])
        if passed is None:
            return None
        node, column = stream, passed


def _below_alias(node: exp.Subquery, column: str) -> str | None:
    """What a column of ``(…) AS t(a, b)`` is called in the brackets; None if that can't be told."""
    names = [name.lower() for name in node.alias_column_names]
    if not names:
        return column
    below = output_names(node.this)
    told = column.lower() in names and "*" not in below and len(below) == len(names)
    return below[names.index(column.lower())] if told else None


def _column_below(
    select: exp.Select, column: str, stream: exp.Expr, others: Sequence[exp.Expr]
) -> str | None:
    """The column of a stream in FROM that a column of the SELECT is; None: it is another relation's, or computed.

    Without a qualifier it is the stream's wherever nothing says that another relation has one of that name.
    """
    named = [item for item in select.expressions if item.output_name.lower() == column.lower()]
    columns = [named[0].unalias()] if named else [item for item in select.expressions if item.is_star]
    laterals = [name for each in select.args.get("laterals") or () for name in each.alias_column_names]
    for found in columns:
        if not isinstance(found, exp.Column | exp.Star):
            continue
        name = column if found.is_star else found.name
        qualifier = found.table if isinstance(found, exp.Column) else ""
        if qualifier:
            if qualifier.lower() == stream.alias_or_name.lower():
                return name
        elif name.lower() not in map(
            str.lower, [*laterals, *(own for each in others for own in output_names(each))]
        ):
            return name
    return None


def _branch_with(node: exp.SetOperation, table: exp.Table | None) -> exp.Expr | None:
    """The side of a UNION ALL that reads a stream."""
    return next(
        (side for side in (node.this, node.expression) if any(t is table for t in _tables(side))), None
    )


def _at_same_place(column: str, node: exp.SetOperation, branch: exp.Expr) -> str | None:
    """What a branch calls a column of a UNION ALL; None if that can't be told. Behind stars, columns of the same
    name are taken to be at the same place."""
    if branch is node.this:
        return column
    first, own = output_names(node.this), output_names(branch)
    if "*" in first or "*" in own:
        return column if first == own else None
    places = [place for place, name in enumerate(first) if name.lower() == column.lower()]
    return (own[places[0]] or None) if places and len(own) == len(first) else None


def _tables(node: exp.Expr) -> list[exp.Table]:
    return list(every(node, exp.Table))


@dataclass(frozen=True)
class Stream:
    """A relation that is read as a stream."""

    relation: str
    """As the compiled text names it."""
    view: str
    columns: tuple[str, ...] | None
    """Columns the query may use; None: all."""
    event_time: str | None
    """Its column that the first window over it is cut by; None where that is computed."""
    feed: bool = False
    """Whether its change feed is read."""
