"""SQL that checks whether a text is exactly one JSON value, and takes arrays of values apart.

Spark's parser stops at the end of the first value of a text and ignores the rest: another record, half of one, an
extra comma. Regular expressions recognize most texts that are one value. Others are parsed within brackets, where only
one value is allowed.
"""

from __future__ import annotations

from ..util.quoting import literal

_DEPTH = 5
"""Levels of nested objects that the regular expressions follow."""
STRING = r'"(?:[^"\\]++|\\.)*+"'
# Texts with other quotes, comments and escapes, which Spark's options allow, don't match: the parser checks them.
_OTHERS = r"""[^{}"'/\\]++"""


def _object_regex(depth: int) -> str:
    inner = f"|{_object_regex(depth - 1)}" if depth else ""
    return rf"\{{(?:{_OTHERS}|{STRING}{inner})*+\}}"


_OBJECT = _object_regex(_DEPTH)
_ONE = rf"(?s)^\s*+{_OBJECT}\s*+$"
_ARRAY = rf"(?s)^\s*+\[\s*+(?:{_OBJECT}\s*+(?:,\s*+{_OBJECT}\s*+)*+)?\]\s*+$"


def is_array_condition(text: str) -> str:
    """Returns SQL for whether a text begins as a JSON array."""
    return rf"{text} rlike '^\\s*+\\['"


def is_one_object_condition(text: str) -> str:
    """Returns SQL for whether a text is known to be exactly one JSON object, without parsing it."""
    return f"is_valid_utf8({text}) and ({_is_flat_condition(text)} or {text} rlike {literal(_ONE)})"


def _is_flat_condition(text: str) -> str:
    """Returns SQL for whether a text begins with a brace and the only closing one is at its end, as in most records."""
    # Bytes are counted without decoding the text.
    inner = f"substring(cast({text} as binary), 1, octet_length({text}) - 1)"
    return f"(startswith({text}, '{{') and endswith({text}, '}}') and not contains({inner}, X'7D'))"


def is_not_one_value_condition(text: str, options: str) -> str:
    """Returns SQL for whether a text isn't exactly one JSON value."""
    # The closing bracket of one is an error in the other.
    in_array = f"size(from_json(concat('[', {text}, '\\n]'), 'array<string>', {options})) = 1"
    in_object = f"""size(from_json(concat('{{"x":', {text}, '\\n}}'), 'map<string,string>', {options})) = 1"""
    return (
        f"case when {is_one_object_condition(text)} then false when not is_valid_utf8({text}) then true "
        f"when {text} rlike {literal(_ARRAY)} then false "
        f"else not coalesce({in_array} and {in_object}, false) end"
    )


def elements_sql(text: str, options: str) -> str:
    """Returns SQL for the texts of an array's objects; NULL if an element isn't an object."""
    # Spark's parser would reformat numbers.
    found = (
        f"if({text} rlike {literal(_ARRAY)}, regexp_extract_all({text}, {literal('(?s)' + _OBJECT)}, 0), "
        f"from_json({text}, 'array<string>', {options}))"
    )
    is_other = "__x is null or not startswith(__x, '{')"
    return f"transform(array({found}), __e -> if(exists(__e, __x -> {is_other}), null, __e))[0]"


def decoded_text_sql(value: str, encoding: str | None, separator: str | None, is_file: bool) -> str | None:
    """Returns SQL for the text of a file or of one of its lines; None if Spark's SQL can't decode it.

    Args:
        value: SQL for the value of the text reader, whose bytes are those of the file.
        is_file: whether it is the text of a whole file, which may begin with a byte order mark.

    >>> decoded_text_sql("value", None, None, False), decoded_text_sql("value", "Shift_JIS", None, False)
    ('value', None)
    >>> decoded_text_sql("value", "UTF-16LE", "|", False)
    "trim(LEADING '\\ufeff' FROM decode(cast(value as binary), 'UTF-16LE'))"
    """
    name = (encoding or "").upper()
    if not is_file and name.startswith("UTF-16") and separator is None:
        return None  # Spark's reader of JSON says that it needs lineSep.
    if name in ("", "UTF-8", "US-ASCII"):
        text = _detected_text_sql(value) if is_file and not name else value
    elif name in ("ISO-8859-1", "UTF-16BE", "UTF-16LE") or (is_file and name in ("UTF-16", "UTF-32")):
        text = f"decode(cast({value} as binary), {literal(name)})"
    else:
        return None
    return text if text == value and not is_file else f"trim(LEADING '\ufeff' FROM {text})"


def _detected_text_sql(value: str) -> str:
    """Returns SQL for the text of a file whose encoding shows in its first bytes, as JSON's parser detects it."""
    first = f"hex(substr(cast({value} as binary), 1, 4))"
    encodings = {
        "^(0000FEFF|FFFE0000|000000)": "UTF-32",
        "^(FEFF|FFFE)": "UTF-16",
        "^00": "UTF-16BE",
        "^..00": "UTF-16LE",
    }
    cases = " ".join(
        f"when {first} rlike '{bytes}' then decode(cast({value} as binary), '{name}')"
        for bytes, name in encodings.items()
    )
    return f"case {cases} else {value} end"
