"""Replaces rows of a table in one statement, so one commit: no reader sees a gap.

Where whole files are replaced, it is INSERT … REPLACE WHERE, and Iceberg drops the files without reading them.

Where a file also has other rows, it is a MERGE whose source has two kinds of rows: some match the rows to delete, the new
ones match nothing and are inserted. The column `_MARK` distinguishes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...util.quoting import quote

OLD, NEW = "DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE"
_MARK = quote("old or new")
_PIECES = 256
"""Number of hash buckets that distribute the rows to delete over tasks, where there is no key."""


def replace_files_sql(
    table: str, source: str, columns: Mapping[str, str], condition: str, given: Collection[str] | None = None
) -> str:
    """Returns a statement that replaces files by a query's rows. The condition must hold for all rows of a file or
    for none.

    Args:
        source: a relation, or a query in brackets.
        columns: all columns of the table and their types, in order.
        condition: over the table's columns.
        given: the columns that the query has; the others are NULL. None if it has all.

    >>> print(replace_files_sql("db.t", "rows", {"k": "int", "v": "string"}, "true", given=["k"]))
    insert into db.t replace where true
    select `k`, cast(null as string) as `v` from rows
    """
    listed = (
        quote(name) if given is None or name in given else f"cast(null as {kind}) as {quote(name)}"
        for name, kind in columns.items()
    )
    return f"insert into {table} replace where {condition}\nselect {', '.join(listed)} from {source}"


def replace_where_sql(
    table: str, source: str, columns: Mapping[str, str], condition: str, predicates: Sequence[str] = ()
) -> str:
    """Returns a statement that replaces the rows for which a condition holds by all rows of a query.

    Args:
        source: a relation, or a query in brackets.
        columns: names and types of the columns that both have.
        condition: over the table's columns.
        predicates: more conditions, from the user.
    """
    hashed = _hashable_columns(columns)
    piece_of_row = f"pmod(hash({', '.join(hashed) or 1}), {_PIECES})"
    piece_of_old = f"pmod(hash({', '.join(f'{OLD}.{name}' for name in hashed) or 1}), {_PIECES})"
    missing, rows = _new_columns(columns)
    return _merge_sql(
        table,
        f"select explode(sequence(0, {_PIECES - 1})) as {_MARK}, {missing}\n"
        f"  union all\n"
        f"  select -1 - {piece_of_row} as {_MARK}, {rows} from {source}",
        [f"{NEW}.{_MARK} = {piece_of_old}", condition, *predicates],
        f"{NEW}.{_MARK} < 0",
        columns,
    )


def replace_keys_sql(
    table: str,
    source: str,
    columns: Mapping[str, str],
    keys: Sequence[str],
    predicates: Sequence[str] = (),
) -> str:
    """Returns a statement that replaces the table's rows by a query's rows with the same keys.

    Args:
        source: a relation, or a query in brackets.
        columns: names and types of the columns that both have.
        keys: columns of the key, which needn't be unique.
        predicates: the user's conditions; rows that don't meet them are kept.
    """
    listed = ", ".join(map(quote, keys))
    named = ", ".join(f"{quote(key)} as {_key_column(key)}" for key in keys)
    missing, rows = _new_columns(columns)
    conditions = [f"{OLD}.{quote(key)} <=> {NEW}.{_key_column(key)}" for key in keys]
    return _merge_sql(
        table,
        f"select true as {_MARK}, {named}, {missing} from (select distinct {listed} from {source})\n"
        f"  union all\n"
        f"  select false as {_MARK}, {named}, {rows} from {source}",
        [*conditions, f"{NEW}.{_MARK}", *predicates],
        f"not {NEW}.{_MARK}",
        columns,
    )


def _merge_sql(
    table: str, source: str, conditions: Sequence[str], is_new: str, columns: Mapping[str, str]
) -> str:
    matched = "\n  and ".join(conditions)
    names = ", ".join(quote(name) for name in columns)
    values = ", ".join(f"{NEW}.{_new_column(name)}" for name in columns)
    return (
        f"merge into {table} as {OLD}\n"
        f"using (\n  {source}\n) as {NEW}\n"
        f"on {matched}\n"
        f"when matched then delete\n"
        f"when not matched and {is_new} then insert ({names})\n"
        f"values ({values})"
    )


def _hashable_columns(columns: Mapping[str, str]) -> list[str]:
    """Returns up to six columns that can be hashed, as SQL."""
    found = [quote(name) for name, kind in columns.items() if not any(t in kind for t in ("map", "variant"))]
    return found[:6]


def _new_columns(columns: Mapping[str, str]) -> tuple[str, str]:
    """Returns the select list of new rows' columns twice: NULL for a row to delete, and the values of a new row."""
    missing = ", ".join(f"null as {_new_column(name)}" for name in columns)
    return missing, ", ".join(f"{quote(name)} as {_new_column(name)}" for name in columns)


def _new_column(name: str) -> str:
    # Differs from the table's column names, which a user's predicates may use unqualified.
    return quote(f"new {name}")


def _key_column(name: str) -> str:
    return quote(f"key {name}")
