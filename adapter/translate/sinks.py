"""Gives a query the columns of the table in INSERT INTO: Flink matches them by position, a model by name."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from sqlglot import exp

from ..query.sql.dialect import DIALECT
from ..query.sql.nodes import every
from .errors import Notes, Untranslatable
from .flink_parser import Tokenizer
from .functions import ColumnTypes
from .relations import Resolve, column_names, ctes_of
from .script import Column, CreateTable, Insert

_KEYWORDS = {word.split()[0] for word in Tokenizer.KEYWORDS}
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def inserted_query(
    insert: Insert, table: CreateTable, resolve: Resolve, types: ColumnTypes, notes: Notes, line: int
) -> exp.Query:
    """Returns the query of an INSERT with the names and types of the table's columns."""
    query = insert.query
    columns = [each for each in table.columns if each.computed is None and not each.is_virtual]
    if columns and query is table.query:
        raise Untranslatable(
            f"{table.name} has columns in addition to those of its query: write CREATE TABLE with all of them, and INSERT "
            "INTO.",
            line,
        )
    by_name = {each.name: each for each in columns}
    partition = [name for name in by_name if name in insert.partition]
    names = [*(insert.columns or [name for name in by_name if name not in partition]), *partition]
    if not columns:
        return query
    if unknown := [name for name in names if name not in by_name]:
        raise Untranslatable(f"The table {table.name} has no column {unknown[0]}.", line)
    for select in _branches(query):
        found = column_names(select, resolve, ctes_of(query))
        if any(item.is_star for item in select.expressions):
            if found is None:
                notes.add(
                    line,
                    f"INSERT INTO {table.name} SELECT *: Flink goes by the order of columns, which isn't known here, and "
                    "the model by their names. Write the columns.",
                )
                return query
            if [*found, *partition] == names and not partition:
                continue
            select = _replace_star_by_columns(select, found)
        items = [*select.expressions, *(insert.partition[name].copy() for name in partition)]
        if len(items) != len(names):
            raise Untranslatable(
                f"The query gives {len(items)} columns, and {len(names)} of {table.name} are to be written.",
                line,
            )
        by_place = dict(zip(names, items, strict=True))
        written = [
            _table_column_item(by_place.get(name, exp.Null()), column, types)
            for name, column in by_name.items()
        ]
        select.set("expressions", written)
    return query


def _branches(query: exp.Query) -> list[exp.Select]:
    """Returns the SELECTs of a query that give its rows: several for a UNION."""
    inner = query.unnest()
    if isinstance(inner, exp.SetOperation):
        return [*_branches(inner.this), *_branches(inner.expression)]
    return [inner] if isinstance(inner, exp.Select) else []


def name_computed_columns(query: exp.Query) -> exp.Query:
    """Returns a query whose computed columns have names: Flink calls them EXPR$0 and so on. Changes the tree."""
    for select in _branches(query)[:1]:
        for number, item in enumerate(select.expressions):
            if not isinstance(item, exp.Alias | exp.Column | exp.Dot) and not item.is_star:
                item.replace(exp.alias_(item.copy(), f"expr_{number}"))
    return query


def _replace_star_by_columns(select: exp.Select, names: Sequence[str]) -> exp.Select:
    """Wraps a SELECT with a star in one that names the columns. Changes the tree."""
    if len(set(names)) != len(names):
        raise Untranslatable("SELECT * gives two columns of one name. Write the columns.", select)
    inner = select.copy()
    inner.set("with_", None)
    for name in list(select.args):
        if name != "with_":
            select.set(name, None)
    subquery = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("rows_of_query")))
    select.set("expressions", [exp.column(name, quoted=True) for name in names])
    select.set("from_", exp.From(this=subquery))
    return select


def _table_column_item(item: exp.Expr, column: Column, types: ColumnTypes) -> exp.Expr:
    """Returns an item of a select list as a column of the table."""
    value = item.unalias()
    kind = (column.type or "").lower()
    is_number = kind in _NUMBERS or kind.startswith("decimal")
    of = "int" if kind in _NUMBERS[:4] else kind
    is_plain = isinstance(value, exp.Column | exp.Window | exp.Count | exp.Cast)
    if isinstance(value, exp.Null) or (is_number and not is_plain and types.type_of(value) != of):
        value = exp.cast(value, kind, dialect=DIALECT)
    if isinstance(value, exp.Column) and value.name == column.name:
        return value
    return exp.alias_(value, exp.to_identifier(column.name, quoted=_needs_quotes(column.name, item)))


def _needs_quotes(name: str, item: exp.Expr) -> bool:
    """Returns whether a name is written in backticks: a keyword, or one whose value has such names."""
    is_plain = name.isidentifier() and name.upper() not in _KEYWORDS
    return not is_plain or any(each.args.get("quoted") for each in every(item, exp.Identifier))


def values_as_csv(insert: Insert, table: CreateTable | None) -> str | None:
    """Returns the rows of INSERT INTO … VALUES as CSV; None if it is something else."""
    query = insert.query
    is_star = query.is_star and not query.args.get("where") and not query.args.get("joins")
    is_values = isinstance(query, exp.Values) or (isinstance(query, exp.Select) and is_star)
    if not is_values or (values := query.find(exp.Values)) is None:
        return None
    names = insert.columns or ([each.name for each in table.physical] if table else [])
    rows = [[_csv_value(each) for each in row.expressions] for row in values.expressions]
    if any(len(row) != len(names) for row in rows):
        raise Untranslatable(f"The rows of VALUES don't have the columns of {insert.name}.", values)
    return to_csv([names, *rows])


def to_csv(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as CSV.

    >>> to_csv([["a", "b"], ["1", "x, y"]])
    'a,b\\n1,"x, y"\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_value(value: exp.Expr) -> str:
    if isinstance(value, exp.Neg):
        return f"-{_csv_value(value.this)}"
    if isinstance(value, exp.Null):
        return ""
    if isinstance(value, exp.Cast):
        return _csv_value(value.this)
    if isinstance(value, exp.Boolean):
        return str(value.this).lower()
    if isinstance(value, exp.Literal) and value.this:
        return str(value.this)
    if isinstance(value, exp.Literal):
        raise Untranslatable("VALUES has an empty text, which is NULL in the file of a seed.", value.parent)
    raise Untranslatable(
        "VALUES has an expression, and the file of a seed has only values. Write the expression's value.",
        value,
    )
