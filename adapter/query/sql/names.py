"""Names of state columns, made from the user's SQL so that the state is readable.

>>> names = Names({"window_start"})
>>> names.new("COUNT(DISTINCT device_id) FILTER(WHERE channel = 'A')")
'count_distinct_device_id_where_channel_a'
>>> names.new("window_start")
'window_start_2'
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

from ...sources.source_tables import without_read_digest

_LONGEST = 60
_MARKS = {"__": "__of_author0", "_": "__of_author1"}
"""Prefixes that replace leading underscores in the author's names while planning, to avoid collisions with generated
names (`own_names`). State column names are made without them."""


def mark_name(name: str) -> str:
    """Marks an author's name that begins with underscores.

    >>> mark_name("__row_time"), remove_marks("max(__of_author0row_time)")
    ('__of_author0row_time', 'max(__row_time)')
    """
    begin = "__" if name.startswith("__") else "_"
    return _MARKS[begin] + name[len(begin) :]


def is_marked(name: str) -> bool:
    return name.startswith(tuple(_MARKS.values()))


def remove_marks(text: str) -> str:
    """Returns a text without marks."""
    for begin, mark in _MARKS.items():
        text = text.replace(mark, begin)
    return text


def digest(*texts: object, length: int = 10) -> str:
    """Returns a short hash of texts, as hexadecimal digits."""
    text = without_read_digest(remove_marks("\n".join(map(str, texts))))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


class Names:
    """Makes unique names: they differ in more than case and avoid reserved ones."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = {name.lower() for name in reserved}

    def new(self, text: str) -> str:
        """Returns a name for a piece of SQL. Equal queries get equal names."""
        slug = _slug(text)
        name, number = slug, 1
        while name in self._taken:
            number += 1
            name = f"{slug}_{number}"
        self._taken.add(name)
        return name


class ContentNames:
    """Makes names of state columns that don't depend on other expressions in the query.

    If several texts would get one name, all of them get a digest. Such texts are known only after all names are made. So
    names are made twice, the second time with the `ambiguous` texts of the first.

    >>> def named(*texts, ambiguous=()):
    ...     names = ContentNames({"step"}, ambiguous)
    ...     return [names.new(text) for text in texts], sorted(names.ambiguous)
    >>> named("SUM(a)", "SUM(a.b)", "SUM(a_b)", "step")
    (['sum_a', 'sum_a_b', 'sum_a_b_6d5bf33e', 'step_2'], ['SUM(a.b)', 'SUM(a_b)'])
    >>> named("SUM(a_b)", "SUM(a.b)", "SUM(a)", ambiguous=("SUM(a.b)", "SUM(a_b)"))
    (['sum_a_b_6d5bf33e', 'sum_a_b_c8709feb', 'sum_a'], [])
    """

    def __init__(self, reserved: Iterable[str], ambiguous: Collection[str] = ()) -> None:
        self._owner: dict[str, str | None] = {name.lower(): None for name in reserved}
        self._known_ambiguous = ambiguous
        self.ambiguous: set[str] = set()
        """Texts whose name was already in use."""

    def new(
        self, text: str, identity: str | None = None, suffixes: Collection[str] = (), fixed: bool = False
    ) -> str:
        """Returns a name for a piece of SQL.

        Args:
            text: the name is made from it.
            identity: distinguishes expressions with equal `text`.
            suffixes: of derived columns, which must be free, too.
            fixed: whether it keeps its name and others get a digest.
        """
        what, slug = identity or text, _slug(text)
        name, number = slug, 1
        if what in self._known_ambiguous:
            name = _name_with_digest(slug, what)
        while any(
            column in self._owner and self._owner[column] is None
            for column in _names_with_suffixes(name, suffixes)
        ):
            number += 1
            name = f"{slug}_{number}"
        others = {
            self._owner[column] for column in _names_with_suffixes(name, suffixes) if column in self._owner
        }
        if others:
            self.ambiguous |= {what, *filter(None, others)}
            name = _name_with_digest(slug, what)
        for column in _names_with_suffixes(name, suffixes):
            self._owner[column] = None if fixed else what
        return name


def _names_with_suffixes(name: str, suffixes: Collection[str]) -> list[str]:
    return [name, *(f"{name}_{suffix}" for suffix in suffixes)]


def _slug(text: str) -> str:
    slug = (
        without_read_digest(remove_marks(text))
        .lower()
        .replace("count(*)", "count_all")
        .replace("filter(where", " where ")
    )
    slug = re.sub(r"[^a-z0-9]+", "_", slug).strip("_") or "expression"
    if len(slug) <= _LONGEST:
        return slug
    return _name_with_digest(slug, text)


def _name_with_digest(slug: str, text: str) -> str:
    short = digest(text, length=8)
    return slug if slug.endswith(short) else f"{slug[: _LONGEST - 9].rstrip('_')}_{short}"
