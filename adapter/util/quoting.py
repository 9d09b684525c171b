"""Quotes names and values for Spark SQL. All text that becomes part of SQL is quoted here."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

_QUOTED = re.compile(r"\s*`((?:[^`]|``)+)`\s*")
_PART = re.compile(r"`(?:[^`]|``)+`|[^`.]+")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_IN_QUOTES = re.compile(r"(?<![`\w])`(?:[^`]|``)+`(?![`\w])")


def quote(name: str) -> str:
    """Returns a name as a quoted identifier.

    >>> print(quote("/p"), quote("a`b"))
    `/p` `a``b`
    """
    return "`" + name.replace("`", "``") + "`"


def is_plain(name: str) -> bool:
    """Returns whether SQL reads a name without quotes.

    >>> is_plain("k"), is_plain("/p"), is_plain("a.b")
    (True, False, False)
    """
    return _PLAIN.fullmatch(name) is not None


def unquote(name: str) -> str:
    """Returns a name without backquotes around it, if there are any.

    >>> unquote(" `a``b` "), unquote("a`b"), unquote(" a"), unquote("`a`.`b`")
    ('a`b', 'a`b', ' a', '`a`.`b`')
    """
    found = _QUOTED.fullmatch(name)
    return found[1].replace("``", "`") if found else name


def quote_name(name: str, reserved: bool = False) -> str:
    """Returns a user's name, quoted or not, as an identifier; quoted only if it needs quotes.

    >>> quote_name("id"), quote_name("from", reserved=True), quote_name("/p"), quote_name("`/p`")
    ('id', '`from`', '`/p`', '`/p`')
    """
    return quote(unquote(name)) if reserved or not is_plain(name) else name


def quote_path(path: Iterable[str]) -> str:
    """Returns a path, such as a field of a column or a table of a schema, as quoted identifiers.

    >>> print(quote_path(["meta", "at.utc"]))
    `meta`.`at.utc`
    """
    return ".".join(map(quote, path))


def split_path(text: str) -> tuple[str, ...]:
    """Splits a user's path of a column and its fields, each quoted or not.

    >>> split_path("meta.at"), split_path("`a.b`"), split_path("meta.`at utc`"), split_path(" ts ")
    (('meta', 'at'), ('a.b',), ('meta', 'at utc'), ('ts',))
    >>> split_path("days(meta.at)"), split_path(".at")
    (('days(meta.at)',), ('.at',))
    """
    text = text.strip()
    found = [] if "(" in text else _PART.findall(text)
    if ".".join(found) != text:
        return (unquote(text),)
    return tuple(unquote(part) for part in found)


def time_name(text: str) -> str:
    """Normalizes the name of an event-time column: a column is unquoted, a field of a column is a quoted path.

    >>> time_name("ts"), time_name("`a.b`"), time_name("meta.at")
    ('ts', 'a.b', '`meta`.`at`')
    """
    path = split_path(text)
    return quote_path(path) if len(path) > 1 else path[0]


def is_path(name: str) -> bool:
    """Returns whether a result of `time_name` is a field of a column."""
    return name.startswith("`") and len(split_path(name)) > 1


def quote_time(name: str) -> str:
    """Returns a result of `time_name` as SQL.

    >>> quote_time("a.b"), quote_time("`meta`.`at`")
    ('`a.b`', '`meta`.`at`')
    """
    return name if is_path(name) else quote(name)


def time_name_text(name: str) -> str:
    """Returns a result of `time_name` as text for a message.

    >>> time_name_text("ts"), time_name_text("`meta`.`at`")
    ('ts', 'meta.at')
    """
    return ".".join(split_path(name)) if is_path(name) else name


def quote_configured(text: str) -> str:
    """Returns a config's column as an identifier; an expression over columns is returned unchanged.

    >>> [quote_configured(text) for text in ("/p", "a b", "`a b`", "days(ts)", "meta.at", "a, b", "bucket(4, `a``b`)")]
    ['`/p`', '`a b`', '`a b`', 'days(ts)', 'meta.at', 'a, b', 'bucket(4, `a``b`)']
    >>> print(*map(quote_configured, ("we`ird", "`a`b", "a`", "`meta`.`at utc`", "a(b", "`a(b`", "x`,y")))
    `we``ird` ```a``b` `a``` `meta`.`at utc` `a(b` `a(b` `x``,y`
    """
    unquoted = _IN_QUOTES.sub("q", text)
    is_balanced = "`" not in unquoted and unquoted.count("(") == unquoted.count(")")
    is_sql = is_balanced and ("(" in unquoted or "," in unquoted or _PATH.fullmatch(unquoted.strip()))
    return text if is_sql else quote(text)


def find_name(name: str, names: Iterable[str]) -> str | None:
    """Returns the column that a config's name refers to, or None. The name may be quoted, in any case.

    >>> find_name("`K`", ["k", "v"]), find_name("/P", ["/p"]), find_name("`a`", ["`a`", "a"]), find_name("x", ["k"])
    ('k', '/p', '`a`', None)
    """
    known = {each.lower(): each for each in names}
    return known.get(name.lower(), known.get(unquote(name).lower(), known.get(name.strip().lower())))


def literal(value: Any) -> str:
    r"""Returns a value as a SQL literal.

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
        # Not converted to float, which can't represent 2**53 + 1.
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, (datetime.datetime, datetime.date)):
        value = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return f"'{escape_literal(str(value))}'"


def escape_literal(text: str) -> str:
    """Escapes text for a string literal. ``${`` is escaped, because Spark substitutes variables in string literals, too."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")


def text_literal(value: Any) -> str:
    """Returns a value as a string literal, for a property, an option or a comment.

    >>> text_literal(True), text_literal(3), text_literal("a'b")
    ("'true'", "'3'", "'a\\\\'b'")
    """
    return literal(option_text(value))


def option_text(value: Any) -> str:
    """Returns a value of YAML as Spark's options write it: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
