"""Names of the catalog tables through which SQL reads sources that `sources.yml` declares.

Each source has a schema of its own in the session's catalog, which holds one table, called as its author calls it. Two
digests in the schema's name say which source it is of and what is read: other sources have other tables, and so have
other folders, options or columns of the same source, in whichever run, project or process.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable

CATALOG = "spark_catalog"
PREFIX = "dbt_source_"

_LONGEST = 40
_SCHEMA = re.compile(rf"\b({PREFIX}\w+?_[0-9a-f]{{8}})_[0-9a-f]{{8}}\b")
_TABLE = re.compile(
    rf"(?:`?{CATALOG}`?\.)?`?(?P<source>{PREFIX}\w+?_[0-9a-f]{{8}})(?:_[0-9a-f]{{8}})?`?(?:\.`?\w+`?)?"
)


def schema_name(source: str, identity: str, reads: object) -> str:
    """The schema that holds the table of a source.

    Args:
        source: the name of the block in `sources.yml`.
        identity: which source of all projects it is.
        reads: what is read, as JSON.

    >>> schema_name("raw", "shop.raw.orders", {"path": "/eu"})
    'dbt_source_raw_b46e9032_b3e110bc'
    """
    return f"{PREFIX}{_plain(source)}_{_digest(identity)}_{_digest(json.dumps(reads, sort_keys=True))}"


def table_name(schema: str, table: str) -> str:
    """The table of a source, as SQL names it.

    >>> table_name("dbt_source_raw_e86b3f81_78ae1ed6", "my orders")
    '`spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`my_orders`'
    """
    return f"`{CATALOG}`.`{schema}`.`{_plain(table, 100)}`"


def schemas_in(text: str) -> Iterable[str]:
    """The schemas of sources that a text names, each once.

    >>> list(schemas_in("from `spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`orders`, raw.dbt_source_x"))
    ['dbt_source_raw_e86b3f81_78ae1ed6']
    """
    return dict.fromkeys(found[0] for found in _SCHEMA.finditer(text))


def without_place(text: str) -> str:
    """A text whose names of sources say which source they are of, and not what that reads.

    >>> without_place("from spark_catalog.dbt_source_raw_e86b3f81_78ae1ed6.orders")
    'from spark_catalog.dbt_source_raw_e86b3f81.orders'
    """
    return _SCHEMA.sub(r"\1", text) if PREFIX in text else text


def renamed(text: str, name_of: Callable[[str], str | None]) -> str:
    """A text in which tables of sources have other names.

    Args:
        text: any text.
        name_of: gives the name of the source whose schema, `without_place`, it is given; None leaves the table's.

    >>> renamed("`spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`orders`.`x`", {"dbt_source_raw_e86b3f81": "raw.o"}.get)
    'raw.o.`x`'
    """
    return _TABLE.sub(lambda found: name_of(found["source"]) or found[0], text) if PREFIX in text else text


def _plain(name: str, longest: int = _LONGEST) -> str:
    """A name as any catalog takes it."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).lower()[:longest]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
