"""One statement that takes rows out of a table and puts others in: one commit, so no reader sees a gap.

Where whole files go, it is INSERT … REPLACE WHERE, and Iceberg takes the files out without reading them.

Where a file also holds other rows, it is a MERGE whose source holds two kinds of rows. Those with a
*mark* match what has to go, which is deleted; the new rows match nothing, and are inserted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...util.quoting import quote

OLD, NEW = "DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE"
_MARK = "mark"
_PIECES = 256
"""Into how many pieces rows are spread over tasks where no key does that."""


def replace_files(table: str, source: str, columns: Mapping[str, str], condition: str) -> str:
    """Replaces the files of a table by a query's rows, where a condition holds for all of a file or none.

    Args:
        table: its name.
        source: a relation, or a query in brackets.
        columns: all that the table has, in order.
        condition: over the table's columns.
    """
    names = ", ".join(quote(name) for name in columns)
    return f"insert into {table} replace where {condition}\nselect {names} from {source}"


def replace_where(
    table: str, source: str, columns: Mapping[str, str], condition: str, predicates: Sequence[str] = ()
) -> str:
    """Replaces the rows of a table where a condition holds by all of a query's.

    Args:
        table: its name.
        source: a relation, or a query in brackets.
        columns: names and types of those that both have.
        condition: over the table's columns.
        predicates: more conditions, of the user's.
    """
    spread = ", ".join(quote(name) for name in _spread(columns)) or "1"
    missing = ", ".join(f"null as {_new(name)}" for name in columns)
    rows = ", ".join(f"{quote(name)} as {_new(name)}" for name in columns)
    conditions = [f"{NEW}.{_MARK} = pmod(hash({spread}), {_PIECES})", condition, *predicates]
    return _merge(
        table,
        f"select explode(sequence(0, {_PIECES - 1})) as {_MARK}, {missing}\n"
        f"  union all\n"
        f"  select -1 - pmod(hash({spread}), {_PIECES}) as {_MARK}, {rows} from {source}",
        conditions,
        f"{NEW}.{_MARK} < 0",
        columns,
    )


def replace_keys(
    table: str,
    source: str,
    columns: Mapping[str, str],
    keys: Sequence[str],
    predicates: Sequence[str] = (),
) -> str:
    """Replaces the rows of a table that have a key of a query's rows by those rows.

    Args:
        table: its name.
        source: a relation, or a query in brackets.
        columns: names and types of those that both have.
        keys: the columns of the key, which needn't be unique.
        predicates: of the user's: what doesn't meet them stays.
    """
    listed = ", ".join(map(quote, keys))
    named = ", ".join(f"{quote(key)} as {_key(key)}" for key in keys)
    missing = ", ".join(f"null as {_new(name)}" for name in columns)
    rows = ", ".join(f"{quote(name)} as {_new(name)}" for name in columns)
    conditions = [f"{OLD}.{quote(key)} <=> {NEW}.{_key(key)}" for key in keys]
    return _merge(
        table,
        f"select true as {_MARK}, {named}, {missing} from (select distinct {listed} from {source})\n"
        f"  union all\n"
        f"  select false as {_MARK}, {named}, {rows} from {source}",
        [*conditions, f"{NEW}.{_MARK}", *predicates],
        f"not {NEW}.{_MARK}",
        columns,
    )


def _merge(
    table: str, source: str, conditions: Sequence[str], is_new: str, columns: Mapping[str, str]
) -> str:
    matched = "\n  and ".join(conditions)
    names = ", ".join(quote(name) for name in columns)
    values = ", ".join(f"{NEW}.{_new(name)}" for name in columns)
    return (
        f"merge into {table} as {OLD}\n"
        f"using (\n  {source}\n) as {NEW}\n"
        f"on {matched}\n"
        f"when matched then delete\n"
        f"when not matched and {is_new} then insert ({names})\n"
        f"values ({values})"
    )


def _spread(columns: Mapping[str, str]) -> list[str]:
    """Some columns that can be hashed."""
    found = [name for name, kind in columns.items() if not any(t in kind for t in ("map", "variant"))]
    return found[:6]


def _new(name: str) -> str:
    # Another name than the table's, which a user's predicates may name alone.
    return quote(f"new {name}")


def _key(name: str) -> str:
    return quote(f"key {name}")
