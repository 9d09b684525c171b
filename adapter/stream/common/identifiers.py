"""Splits, joins and changes qualified table names, with backquotes where SQL needs them.

>>> parts("lakehouse.`dbt-dev`.`my.model`")
['lakehouse', 'dbt-dev', 'my.model']
>>> joined_name(["lakehouse", "dbt-dev", "my.model"])
'lakehouse.`dbt-dev`.`my.model`'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...util.types import quote_if_needed

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def parts(name: str) -> list[str]:
    """Returns the parts of a table's name, without quotes."""
    return [(found[1] or found[2]).replace("``", "`") for found in _PART.finditer(name)]


def joined_name(names: Sequence[str]) -> str:
    """Returns a table's name from its parts, each quoted only if needed."""
    return ".".join(map(quote_if_needed, names))


def with_suffix(name: str, suffix: str) -> str:
    """Returns a table's name with a suffix, in the same schema.

    >>> with_suffix("db.`my-model`", "__state")
    'db.`my-model__state`'
    """
    *above, last = parts(name)
    return joined_name([*above, last + suffix])


def with_last(name: str, own: str) -> str:
    """Returns the name of another table in the same schema.

    >>> with_last("db.`my-model`", "other")
    'db.other'
    """
    return joined_name([*parts(name)[:-1], own])


def last_part(name: str) -> str:
    """Returns the last part of a table's name, without quotes."""
    return parts(name)[-1]
