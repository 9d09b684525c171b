"""Names of the catalog tables through which SQL reads sources that `sources.yml` declares.

Each source has a schema in the session's catalog with one table, which has the source's own name. Two digests in the
schema's name identify the source and what is read. Different sources have different tables, and so have different
folders, options or columns of one source, in any run, project or process.
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


def schema_name(source: str, identity: str, read_settings: object) -> str:
    """Returns the schema that holds the table of a source.

    Args:
        identity: identifies the source among all projects.
        read_settings: what affects the rows or columns read, as JSON.

    >>> schema_name("raw", "shop.raw.orders", {"path": "/eu"})
    'dbt_source_raw_b46e9032_b3e110bc'
    """
    return f"{PREFIX}{_catalog_safe(source)}_{_digest(identity)}_{_digest(json.dumps(read_settings, sort_keys=True))}"


def table_name(schema: str, table: str) -> str:
    """Returns the table of a source, as SQL names it.

    >>> table_name("dbt_source_raw_e86b3f81_78ae1ed6", "my orders")
    '`spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`my_orders`'
    """
    return f"`{CATALOG}`.`{schema}`.`{_catalog_safe(table, 100)}`"


def schemas_in(text: str) -> Iterable[str]:
    """Returns the schemas of sources that a text names, without duplicates.

    >>> list(schemas_in("from `spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`orders`, raw.dbt_source_x"))
    ['dbt_source_raw_e86b3f81_78ae1ed6']
    """
    return dict.fromkeys(found[0] for found in _SCHEMA.finditer(text))


def without_read_digest(text: str) -> str:
    """Returns a text whose source schemas have only the digest of the source, without the one of what is read.

    >>> without_read_digest("from spark_catalog.dbt_source_raw_e86b3f81_78ae1ed6.orders")
    'from spark_catalog.dbt_source_raw_e86b3f81.orders'
    """
    return _SCHEMA.sub(r"\1", text) if PREFIX in text else text


def rename_tables(text: str, name_of: Callable[[str], str | None]) -> str:
    """Returns a text in which tables of sources are renamed.

    Args:
        name_of: returns the new name for the source schema it gets (as by `without_read_digest`), or None to keep the
            table's name.

    >>> text = "`spark_catalog`.`dbt_source_raw_e86b3f81_78ae1ed6`.`orders`.`x`"
    >>> rename_tables(text, {"dbt_source_raw_e86b3f81": "raw.o"}.get)
    'raw.o.`x`'
    """
    return _TABLE.sub(lambda found: name_of(found["source"]) or found[0], text) if PREFIX in text else text


def _catalog_safe(name: str, longest: int = _LONGEST) -> str:
    """A name in characters that any catalog accepts."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).lower()[:longest]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
