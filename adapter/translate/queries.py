"""Translates a query of Flink to the text of a model, with macros for windows, versions, lookups and streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..query.sql.clauses import relations as from_items
from ..query.sql.dialect import DIALECT
from ..query.sql.nodes import every
from ..query.windows.expansion import WINDOW_COLUMNS
from ..query.windows.windows import KINDS
from . import intervals
from .errors import Notes, Untranslatable, line_of
from .flink_parser import WINDOW, WindowCall, ddl_name
from .functions import MULTISET, PROCESSING_TIME, ColumnTypes, Functions
from .relations import NamedRelation, Resolve, column_names, ctes_of, dotted_name, window_call_of
from .script import is_processing_time, processing_time_note

_PLACEHOLDER = "__relation_{}__"
_MACRO = {"tumble": ("SIZE",), "hop": ("SLIDE", "SIZE"), "cumulate": ("STEP", "SIZE"), "session": ("GAP",)}
_WINDOW_COLUMNS = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time"}


@dataclass
class TranslatedQuery:
    """A translated query."""

    text: str
    """The text of a model, with calls of macros."""
    reads: dict[str, NamedRelation]
    """The relations that it reads, by their calls of ref() or source()."""
    looked_up: set[str] = field(default_factory=set)
    """The names of the relations that are read as static or external tables."""
    domains: list[str] = field(default_factory=list)
    """Columns that may be keys of the state."""
    group_keys: list[frozenset[str]] = field(default_factory=list)
    """For each key of its GROUP BY, the columns of the result with its value."""


def quote_for_jinja(text: str) -> str:
    """Returns a text for a call of a macro.

    >>> quote_for_jinja("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def escape_jinja(text: str) -> str:
    """Returns a text that Jinja prints as it is.

    >>> escape_jinja("'{{'")
    "'{{ '{' }}{'"
    """
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


@dataclass
class QueryWriter:
    """Writes the queries of a script."""

    resolve: Resolve
    types: ColumnTypes
    own: Mapping[str, int]
    """Lines of the functions that the script creates."""
    processing_times: set[str]
    """Names of columns with the processing time."""
    notes: Notes

    def translate(self, query: exp.Query) -> TranslatedQuery:
        """Translates a query. Changes the tree."""
        query = _without_group_windows(query)
        result = TranslatedQuery("", {})
        macros: list[str] = []
        ctes = ctes_of(query)
        for table in list(every(query, exp.Table)):
            window = window_call_of(table)
            read = window.relation if window else table
            if read.name not in ctes or read.db:
                macro = self._relation_macro(table, result)
            elif window:
                self._refuse_processing_time(window, None)
                macro = _window_macro(window, quote_for_jinja(read.name))
            else:
                continue
            # Macros are subqueries, which have no name of their own.
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(read.name, quoted=True))
            table.set("this", exp.to_identifier(_PLACEHOLDER.format(len(macros)), quoted=True))
            for name in ("db", "catalog", "version"):
                table.set(name, None)
            table.set("alias", alias)
            macros.append(macro)
        self._drop_processing_times(query)
        self._write_unnest(query)
        Functions(self.types, self.own, self.notes).translate(query)
        result.domains, result.group_keys = (
            _possible_state_keys(query),
            _group_key_columns(query, grows=any("cumulate(" in each for each in macros)),
        )
        result.text = escape_jinja(query.sql(dialect=DIALECT, pretty=True))
        for number, macro in enumerate(macros):
            result.text = result.text.replace(f"`{_PLACEHOLDER.format(number)}`", macro)
        return result

    def _relation_macro(self, table: exp.Table, result: TranslatedQuery) -> str:
        """Returns the macro call that reads a table or a view."""
        window, version = window_call_of(table), table.args.get("version")
        read = window.relation if window else table
        if not isinstance(read.this, exp.Identifier):
            raise Untranslatable(
                f"'{read.sql(dialect=DIALECT)}' isn't the name of a table. If it is a variable, put its value in.",
                read,
            )
        found = self.resolve(dotted_name(read), line_of(read) or 1)
        result.reads[found.call] = found
        if window:
            self._refuse_processing_time(window, found)
            return _window_macro(window, found.call)
        if version:
            return self._versioned_relation(table, version.expression, found, result)
        if found.is_inlined:
            return f"{{{{ {found.call} }}}}"
        if found.connector != "jdbc":
            return f"{{{{ stream({found.call}) }}}}"
        self.notes.add(
            table,
            f"{found.name} is a table of a database. A join with it looks its rows up for the keys of each micro-batch, so "
            "later changes of it don't reach rows that came before.",
        )
        result.looked_up.add(found.name)
        return f"{{{{ {found.call} }}}}"

    def _refuse_processing_time(self, window: WindowCall, relation: NamedRelation | None) -> None:
        name = window.time.name
        if relation is not None and relation.columns is not None:
            is_processing = name in relation.processing_times
        else:
            is_processing = name in self.processing_times
        if is_processing:
            raise Untranslatable(PROCESSING_TIME.format(f"The window over {name}"), window.time)

    def _versioned_relation(
        self, table: exp.Table, time: exp.Expr, relation: NamedRelation, result: TranslatedQuery
    ) -> str:
        """Returns the macro call for a relation that is joined FOR SYSTEM_TIME AS OF a time."""
        if is_processing_time(time) or (isinstance(time, exp.Column) and time.name in self.processing_times):
            if relation.is_inlined or relation.is_model:
                raise Untranslatable(
                    f"The table {relation.name} is a stream, and joined as it is at the moment. Join its versions as they "
                    "were at the row's time: FOR SYSTEM_TIME AS OF an event time.",
                    table,
                )
            result.looked_up.add(relation.name)
            return f"{{{{ {relation.call} }}}}"
        if not isinstance(time, exp.Column):
            raise Untranslatable(
                "FOR SYSTEM_TIME AS OF asks for a column with the event time of the other side.", table
            )
        of, key = (
            (relation.versions.of, relation.versions.key) if relation.versions else (relation, relation.key)
        )
        if of.is_inlined or not key:
            raise Untranslatable(
                f"The versions of {relation.name} aren't known: it needs a PRIMARY KEY and a WATERMARK, or has to be a view "
                "of the last row of each key of such a table.",
                table,
            )
        if not time.table:
            select = table.find_ancestor(exp.Select)
            first = from_items(select)[0].alias_or_name if select is not None else ""
            time.set("table", exp.to_identifier(first))
        result.reads[of.call] = of
        # sources.yml declares the key of a source; nothing declares that of a model.
        is_declared = key == of.key and not of.is_model
        named = "" if is_declared else f", key=[{', '.join(map(quote_for_jinja, key))}]"
        return f"{{{{ as_of({of.call}, {quote_for_jinja(time.sql(dialect=DIALECT))}{named}) }}}}"

    def _drop_processing_times(self, query: exp.Query) -> None:
        """Removes PROCTIME() from select lists: only joins read it, and they are macros now."""
        for select in every(query, exp.Select):
            kept = []
            for item in select.expressions:
                inner = item.unalias()
                name = inner.name if isinstance(inner, exp.Column) else ""
                if is_processing_time(inner) or (
                    name in self.processing_times and item.alias_or_name == name
                ):
                    self.notes.add(item, processing_time_note(item.alias_or_name))
                else:
                    kept.append(item)
            select.set("expressions", kept)
        for column in every(query, exp.Column):
            if column.name.startswith("$"):
                raise Untranslatable(
                    f"{column.name} is a column that only Confluent's Flink has; declare a column with its value.",
                    column,
                )
            if column.name in self.processing_times:
                raise Untranslatable(PROCESSING_TIME.format(f"'{column.name}'"), column)

    def _write_unnest(self, query: exp.Query) -> None:
        """Writes CROSS JOIN UNNEST(…) as LATERAL VIEW, which comes after all joins."""
        for join in list(every(query, exp.Join)):
            found, select = join.this, join.find_ancestor(exp.Select)
            if not isinstance(found, exp.Unnest) or select is None:
                continue
            if found.args.get("offset"):
                raise Untranslatable(
                    "UNNEST … WITH ORDINALITY isn't translated; write LATERAL VIEW posexplode(…).", found
                )
            if len(found.expressions) > 1:
                raise Untranslatable(
                    "UNNEST of several arrays: write LATERAL VIEW inline(arrays_zip(…)).", found
                )
            if any(each.side in ("RIGHT", "FULL") for each in select.args["joins"]):
                raise Untranslatable(
                    "UNNEST next to a RIGHT or FULL JOIN: put the UNNEST into a view.", found
                )
            on = join.args.get("on")
            if on is not None and on != exp.true():
                if join.side:
                    raise Untranslatable(
                        "LEFT JOIN UNNEST(…) ON with a condition: filter the array in a view below, and write ON TRUE.",
                        on,
                    )
                select.where(on, copy=False)
            value = found.expressions[0]
            columns = found.args["alias"].columns if found.args.get("alias") else []
            kind = self.types.type_of(value) or ""
            if kind == MULTISET:
                raise Untranslatable("UNNEST of a MULTISET: write LATERAL VIEW explode(map_keys(…)).", found)
            if kind.startswith("map") and len(columns) == 1:
                raise Untranslatable(
                    "UNNEST of a MAP gives two columns: name its keys and its values.", found
                )
            # Several columns are the fields of an array's rows, or the keys and values of a map.
            is_rows = kind.startswith("array<struct") or (len(columns) > 1 and not kind.startswith("map"))
            generator = (exp.Inline if is_rows else exp.Explode)(this=value.copy())
            alias = exp.TableAlias(this=exp.to_identifier(found.alias or "unnested"), columns=columns)
            join.pop()
            select.append(
                "laterals", exp.Lateral(this=generator, view=True, outer=join.side == "LEFT", alias=alias)
            )


def _window_macro(window: WindowCall, relation: str) -> str:
    arguments = [relation, quote_for_jinja(ddl_name(window.time.name))]
    try:
        arguments += [
            quote_for_jinja(intervals.interval_text(window.lengths[name])) for name in _MACRO[window.kind]
        ]
    except KeyError as problem:
        raise Untranslatable(
            f"{window.kind.upper()}(…) has no argument {problem.args[0]}.", line_of(window.time)
        ) from problem
    if offset := window.lengths.get("OFFSET"):
        arguments.append(f"offset={quote_for_jinja(intervals.interval_text(offset))}")
    if window.partition_by:
        arguments.append(
            f"partition_by=[{', '.join(quote_for_jinja(each.name) for each in window.partition_by)}]"
        )
    return f"{{{{ {window.kind}({', '.join(arguments)}) }}}}"


# -- group windows ---------------------------------------------------------------------------------


def _without_group_windows(query: exp.Query) -> exp.Query:
    """Returns a query with windows in FROM instead of the group windows of earlier versions of Flink."""
    for select in list(every(query, exp.Select)):
        group = select.args.get("group") or exp.Group()
        called = [each for each in group.expressions if _group_window_kind(each)]
        if not called:
            continue
        call = called[0]
        kind = _group_window_kind(call)
        arguments = list(call.expressions)
        time, names = arguments[0], [*_MACRO[kind], "OFFSET"]
        if not isinstance(time, exp.Column):
            what = time.sql(dialect=DIALECT)
            if is_processing_time(time):
                raise Untranslatable(PROCESSING_TIME.format(f"{kind.upper()}({what}, …)"), call)
            raise Untranslatable(
                f"{kind.upper()}() is over the expression '{what}', and needs a column. Compute the expression in a "
                "view, and use its column.",
                call,
            )
        keys = [each for each in group.expressions if each is not call]
        if kind == "session" and not all(isinstance(each, exp.Column) for each in keys):
            raise Untranslatable(
                "A SESSION's rows are grouped by an expression. Compute it in a view, and group by its column.",
                call,
            )
        if kind == "session":
            _move_filter_below(select)
        window = WindowCall(
            kind,
            _only_table(select, query),
            time,
            dict(zip(names, arguments[1:], strict=False)),
            keys if kind == "session" else (),
        )
        from_items(select)[0].meta[WINDOW] = window
        read = _replace_window_calls(select)
        at = group.expressions.index(call)
        columns = [exp.column(_WINDOW_COLUMNS[name]) for name in dict.fromkeys(["START", "END", *read])]
        group.set("expressions", [*group.expressions[:at], *columns, *group.expressions[at + 1 :]])
    return query


def _group_window_kind(node: exp.Expr) -> str:
    """Returns the kind of group window that a call is; an empty text if it is none."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name if name in KINDS and name in _MACRO else ""


def _move_filter_below(select: exp.Select) -> None:
    """Moves WHERE into a subquery in FROM: in Flink, a SESSION in GROUP BY has only the rows that pass it."""
    items, where = from_items(select), select.args.get("where")
    if where is None or len(items) != 1:
        return
    relation = items[0]
    rows = exp.select("*").from_(relation.copy(), copy=False)
    rows.set("where", where.pop())
    relation.replace(rows.subquery(relation.alias_or_name, copy=False))


def _only_table(select: exp.Select, query: exp.Query) -> exp.Table:
    """Returns the only table of FROM. A subquery is moved to WITH."""
    items = from_items(select)
    if len(items) != 1 or select.args.get("laterals") or window_call_of(items[0]):
        raise Untranslatable(
            "A window in GROUP BY is over one table or view. Put what is in FROM into a view, and read that.",
            select,
        )
    relation = items[0]
    if isinstance(relation, exp.Table):
        return exp.Table(**{name: relation.args.get(name) for name in ("this", "db", "catalog")})
    alias = relation.alias or "windowed"
    taken = {*ctes_of(query), *(table.name for table in every(relation.this, exp.Table))}
    while alias in taken:
        alias += "_2"
    name = exp.to_identifier(alias, quoted=True)
    query.with_(exp.TableAlias(this=name), relation.this, copy=False)
    table = exp.Table(this=name.copy(), alias=relation.args.get("alias"))
    relation.replace(table)
    return exp.Table(this=name.copy())


def _replace_window_calls(select: exp.Select) -> list[str]:
    """Replaces TUMBLE_START(…) and similar calls by columns of the window. Returns the ends of their names, as in START."""
    found = []
    for call in list(every(select, exp.Anonymous)):
        kind, _, end = call.name.upper().rpartition("_")
        if kind.lower() not in _MACRO or call.find_ancestor(exp.Select) is not select:
            continue
        if end == "PROCTIME":
            raise Untranslatable(PROCESSING_TIME.format(call.name.upper() + "()"), call)
        if end in _WINDOW_COLUMNS:
            call.replace(exp.column(_WINDOW_COLUMNS[end]))
            found.append(end)
    return found


def _possible_state_keys(query: exp.Query) -> list[str]:
    """Returns columns that may be keys of the state: of groups, rankings, conditions of joins, and the result."""
    found: dict[str, None] = {}
    for holder in every(query, exp.Group, exp.Window, exp.Join, exp.Where):
        parts = [
            *(holder.expressions if isinstance(holder, exp.Group) else ()),
            *(holder.args.get("partition_by") or ()),
            *([holder.args["on"]] if holder.args.get("on") else ()),
            *(every(holder.this, exp.EQ) if isinstance(holder, exp.Where) else ()),
        ]
        for part in parts:
            found |= dict.fromkeys(column.name for column in every(part, exp.Column))
    for select in every(query, exp.Select):
        found |= dict.fromkeys(item.alias for item in select.expressions if item.alias)
        if select.args.get("distinct"):
            found |= dict.fromkeys(item.alias_or_name for item in select.expressions)
    return [name for name in found if name and name != "*"]


def _group_key_columns(query: exp.Query, grows: bool) -> list[frozenset[str]]:
    """Returns for each key of GROUP BY the columns of the result with its value, in lower case. The columns of a window are
    one key.

    Args:
        grows: whether windows with one start have several ends.

    >>> from ..query.sql.dialect import parse
    >>> query = parse("select a as b, window_start as s, count(*) as n from t group by a, window_start, window_end")
    >>> [[*map(sorted, _group_key_columns(query, grows))] for grows in (False, True)]
    [[['b'], ['s']], [['b'], []]]
    """
    group = query.args.get("group") if isinstance(query, exp.Select) else None
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return []
    window = WINDOW_COLUMNS[1:] if grows else WINDOW_COLUMNS

    def key_text(node: exp.Expr) -> str:
        is_window = isinstance(node, exp.Column) and node.name.lower() in window
        return "window" if is_window else str(node.sql(dialect=DIALECT)).lower()

    columns: dict[str, set[str]] = {}
    for item in query.expressions:
        columns.setdefault(key_text(item.unalias()), set()).add(item.alias_or_name.lower())
    names = dict.fromkeys(map(key_text, group.expressions))
    # Several windows have one start, and each end has one start.
    return [frozenset(columns.get(name, ())) for name in names if name != WINDOW_COLUMNS[0]]


def last_row_view(query: exp.Query, resolve: Resolve) -> tuple[NamedRelation, list[str]] | None:
    """Returns the table and the key of a view that selects the last row of each key and renames no column; None for any
    other view."""
    inner = _only_relation(query, "where")
    ranked = inner.this if isinstance(inner, exp.Subquery) else None
    table = _only_relation(ranked)
    if (
        ranked is None
        or not isinstance(table, exp.Table)
        or window_call_of(table)
        or table.alias_column_names
    ):
        return None
    numbers = [each for each in ranked.expressions if isinstance(each.unalias().this, exp.RowNumber)]
    others = [each for each in (*query.expressions, *ranked.expressions) if each not in numbers]
    where = query.args.get("where")
    if len(numbers) != 1 or where is None or not all(map(_keeps_column_name, others)):
        return None
    over, bound, relation = numbers[0].unalias(), where.this, resolve(dotted_name(table))
    order, keys = over.args.get("order"), over.args.get("partition_by") or ()
    if order is None or len(order.expressions) != 1:
        return None
    first = order.expressions[0]
    is_first = isinstance(bound, exp.EQ | exp.LTE) and bound.expression.name == "1"
    is_first = is_first and bound.this.name == numbers[0].alias
    is_last = first.args.get("desc") and first.this.name == relation.event_time
    are_columns = all(isinstance(each, exp.Column) for each in (first.this, *keys))
    if not (is_first and is_last and are_columns and column_names(query, resolve, {})):
        return None
    return relation, [each.name for each in keys]


def _only_relation(query: exp.Expr | None, *clauses: str) -> exp.Expr | None:
    """Returns the only relation of a SELECT that has no other clauses than `clauses`; None for any other query."""
    if not isinstance(query, exp.Select) or len(items := from_items(query)) != 1:
        return None
    given = {name for name, value in query.args.items() if value}
    return items[0] if given <= {"expressions", "from_", *clauses} else None


def _keeps_column_name(item: exp.Expr) -> bool:
    """Returns whether an item of a select list is a star, or a column under its own name."""
    column = item.unalias()
    return item.is_star or (isinstance(column, exp.Column) and column.name == item.alias_or_name)
