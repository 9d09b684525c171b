"""Names and values as Spark SQL reads them back, whatever is in them. All text that becomes SQL is quoted here."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

_QUOTED = re.compile(r"\s*`((?:[^`]|``)+)`\s*")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_EXPRESSION = re.compile(r"[(),`]")


def quote(name: str) -> str:
    """A name as an identifier.

    >>> print(quote("/p"), quote("a`b"))
    `/p` `a``b`
    """
    return "`" + name.replace("`", "``") + "`"


def is_plain(name: str) -> bool:
    """Whether SQL reads a name without quotes.

    >>> is_plain("k"), is_plain("/p"), is_plain("a.b")
    (True, False, False)
    """
    return _PLAIN.fullmatch(name) is not None


def unquote(name: str) -> str:
    """A name without the quotes that its author may have written around it.

    >>> unquote(" `a``b` "), unquote("a`b"), unquote(" a"), unquote("`a`.`b`")
    ('a`b', 'a`b', ' a', '`a`.`b`')
    """
    found = _QUOTED.fullmatch(name)
    return found[1].replace("``", "`") if found else name


def quote_name(name: str, reserved: bool = False) -> str:
    """A name that an author wrote, with quotes or without, which are left out where it needs none.

    Args:
        name: the name.
        reserved: whether SQL may read it as something else.

    >>> quote_name("id"), quote_name("from", reserved=True), quote_name("/p"), quote_name("`/p`")
    ('id', '`from`', '`/p`', '`/p`')
    """
    return quote(unquote(name)) if reserved or not is_plain(name) else name


def quote_path(path: Iterable[str]) -> str:
    """A field of a column, or a table of a schema, as identifiers.

    >>> print(quote_path(["meta", "at.utc"]))
    `meta`.`at.utc`
    """
    return ".".join(map(quote, path))


def quote_configured(text: str) -> str:
    """A column that a config names, or an expression over columns, which stays as it is.

    >>> [quote_configured(text) for text in ("/p", "a b", "`a b`", "days(ts)", "meta.at", "a, b")]
    ['`/p`', '`a b`', '`a b`', 'days(ts)', 'meta.at', 'a, b']
    """
    return text if _PATH.fullmatch(text.strip()) or _EXPRESSION.search(text) else quote(text)


def find_name(name: str, names: Iterable[str]) -> str | None:
    """The one of some names that a config means, which may have quotes and is of any case; None: it means none.

    >>> find_name("`K`", ["k", "v"]), find_name("/P", ["/p"]), find_name("`a`", ["`a`", "a"]), find_name("x", ["k"])
    ('k', '/p', '`a`', None)
    """
    known = {each.lower(): each for each in names}
    return known.get(name.lower(), known.get(unquote(name).lower(), known.get(name.strip().lower())))


def literal(value: Any) -> str:
    r"""A value as a literal.

    >>> print(literal("it's"), literal("C:\\"), literal("${env:HOME}"), literal("two\nlines") == "'two\nlines'")
    'it\'s' 'C:\\' '\u0024{env:HOME}' True
    >>> literal(None), literal(Decimal("1.50")), literal(True)
    ('null', '1.50', 'true')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, Decimal)):
        # Not through float: 2**53 + 1 is a number too.
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, (datetime.datetime, datetime.date)):
        value = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return f"'{escape(str(value))}'"


def escape(text: str) -> str:
    """What stands between the quotes of a text literal. Spark replaces variables in statements, also in texts."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")


def text_literal(value: Any) -> str:
    """A value as the text of a property, an option or a comment.

    >>> text_literal(True), text_literal(3), text_literal("a'b")
    ("'true'", "'3'", "'a\\\\'b'")
    """
    return literal(str(value).lower() if isinstance(value, bool) else str(value))
