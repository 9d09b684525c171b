"""SQL that finds records of CSV with a quote that is never closed, so that they extend over the lines behind it.

Where values may have line breaks (`multiLine`), Spark reads such a quote up to the next one, or to the end of the file,
without an error. Only the text of the record shows it, which Spark returns for records that it can't parse. So columns
are read as `PROBE`, a type that Spark can't parse any text as.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..util.quoting import literal
from .file_options import by_lower_name, is_true

PROBE = "timestamp_ntz"
"""The type of columns that are read in order to get the text of each record."""
PROBING: Mapping[str, str] = {"timestampNTZFormat": "'not a time that a record has'"}
"""Options with which no text can be parsed as a `PROBE`."""
_UNQUOTED = ("", "\0")
_END = r"(?![\s\S])"
_ESCAPES = re.compile(r"\\([\\tbrf\"'])")
_ESCAPED = {"t": "\t", "b": "\b", "r": "\r", "f": "\f", **{c: c for c in "\\\"'"}}


def may_quote_run_on(options: Mapping[str, str]) -> bool:
    """Returns whether an open quote of CSV may extend over the end of its line.

    >>> may_quote_run_on({"MultiLine": "true"}), may_quote_run_on({"multiLine": "true", "quote": ""}), may_quote_run_on({})
    (True, False, False)
    """
    return is_true(options, "multiLine") and by_lower_name(options).get("quote", '"') not in _UNQUOTED


def doubled_quotes_regex(options: Mapping[str, str]) -> str | None:
    r"""Returns a regular expression for a value with doubled quotes, as most programs write quotes, that Spark has read as
    it is written, as its own escape is a backslash; None if the options name an escape.

    >>> found = re.compile(doubled_quotes_regex({}))
    >>> [found.search(text) is not None for text in ('"a ""b"" c"', '\"\"\"\"', '"a"', 'a ""b""', '"a "b" c"')]
    [True, True, False, False, False]
    >>> doubled_quotes_regex({"Escape": '"'}), doubled_quotes_regex({"quote": ""}), doubled_quotes_regex({"quote": "'"})
    (None, None, "(?s)^'.*''.*'$")
    """
    values = by_lower_name(options)
    quote = values.get("quote", '"')
    if "escape" in values or quote in _UNQUOTED:
        return None
    q = re.escape(quote)
    return f"(?s)^{q}.*{q}{q}.*{q}$"


def runs_on_condition(text: str, options: Mapping[str, str]) -> str:
    """Returns SQL for whether a record has a line break, and not each of its quotes is closed before a delimiter."""
    return rf"{text} rlike '[\\n\\r]' and not {text} rlike {literal(closed_record_regex(options))}"


def closed_record_regex(options: Mapping[str, str]) -> str:
    r"""Returns a regular expression for a record in which each quote is closed.

    >>> found = re.compile(closed_record_regex({"escape": '"'}))
    >>> [found.search(text) is not None for text in ('1,"a\n ""b"" ",x"y', ',"a\n2,b', '"a\n2,"b",3', '"a\n" ,')]
    [True, False, False, True]
    >>> re.search(closed_record_regex({"sep": r"\t"}), '1\t"a\nb"') is not None
    True
    >>> re.search(closed_record_regex({"sep": "||", "quote": "'"}), "'it\\'s\n||'||1|2||'x'") is not None
    True
    """
    values = by_lower_name(options)
    quote, escape = values.get("quote", '"'), values.get("escape", "\\")
    sep = values.get("sep", values.get("delimiter", ","))
    end = re.escape(_ESCAPES.sub(lambda found: _ESCAPED[found[1]], sep))
    if escape in (quote, *_UNQUOTED):
        inner = rf"[^{_escape_each(quote)}]*+"
        inner = inner if escape in _UNQUOTED else rf"{inner}(?:{re.escape(quote * 2)}{inner})*+"
    else:
        inner = rf"[^{_escape_each(quote + escape)}]*+"
        inner = rf"{inner}(?:{re.escape(escape)}.{inner})*+"
    q = re.escape(quote)
    value = rf"(?>[ \t]*+{q}{inner}{q}[ \t]*+(?={end}|{_END})|(?!{q})(?:(?!{end})[^\n])*+)"
    return rf"(?s)^{value}(?:{end}{value})*+{_END}"


def _escape_each(letters: str) -> str:
    return "".join(re.escape(letter) for letter in letters)
