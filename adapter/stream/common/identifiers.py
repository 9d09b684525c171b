"""Names of tables in full and types of columns, as SQL takes them, whatever is in them.

>>> parts("lakehouse.`dbt-dev`.`my.model`")
['lakehouse', 'dbt-dev', 'my.model']
>>> joined(["lakehouse", "dbt-dev", "my.model"])
'lakehouse.`dbt-dev`.`my.model`'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...util.types import quoted_as_needed

if TYPE_CHECKING:
    pass

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def parts(name: str) -> list[str]:
    """The parts of a table's name, without their quotes."""
    return [(found[1] or found[2]).replace("``", "`") for found in _PART.finditer(name)]


def joined(names: Sequence[str]) -> str:
    """A table's name from its parts; only those are quoted that have to be."""
    return ".".join(map(quoted_as_needed, names))


def with_suffix(name: str, suffix: str) -> str:
    """The name of a table that lies beside another one.

    >>> with_suffix("db.`my-model`", "__state")
    'db.`my-model__state`'
    """
    *above, last = parts(name)
    return joined([*above, last + suffix])


def with_last(name: str, own: str) -> str:
    """The name of another table in the same place.

    >>> with_last("db.`my-model`", "other")
    'db.other'
    """
    return joined([*parts(name)[:-1], own])


def last(name: str) -> str:
    """A table's own name, without quotes."""
    return parts(name)[-1]
