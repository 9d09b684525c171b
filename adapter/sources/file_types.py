"""Explains Spark's errors about a file whose columns have other types or names than its source, or that is truncated."""

from __future__ import annotations

import re
from urllib.parse import unquote

_OTHER_TYPE = re.compile(
    r"reading file (?P<file>\S+?)\. Data type mismatches when reading Parquet column \[(?P<column>[^\]]*)\]\. "
    r"Expected Spark type (?P<expected>[^\n]+?), actual Parquet type (?P<found>\w+)"
)
_OTHER_AVRO_TYPE = re.compile(
    r"Cannot convert Avro field '(?P<column>[^']*)' to SQL field '[^']*' because schema is incompatible "
    r"\(avroType = \"?(?P<found>[^\n]+?)\"?, sqlType = (?P<expected>[^\n]+?)\)(?:\s|$)"
)
_OTHER_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s*Header: (?P<header>[^\n]*)\n\s*Schema: (?P<schema>[^\n]*)\n"
    r"(?:[^\n]*\n)??\s*CSV file: (?P<file>[^\n]*)"
)
_OTHER_LENGTH = re.compile(
    r"Number of column in CSV header is not equal to number of fields in the schema:\s*"
    r"Header length: (?P<header>\d+), schema size: (?P<schema>\d+)\s*CSV file: (?P<file>[^\n]*)"
)
_NANOSECONDS = re.compile(r"Illegal Parquet type: INT64 \(TIMESTAMP\(NANOS")
_NAMES = {
    "BINARY": "STRING or BINARY",
    "INT64": "BIGINT or DECIMAL",
    "INT32": "INT, DATE or DECIMAL",
    "FIXED_LEN_BYTE_ARRAY": "BINARY or DECIMAL",
}
_OF_NANOSECONDS = (
    "Spark reads no timestamps in nanoseconds. Write the files with microseconds (pyarrow: coerce_timestamps='us', pandas: "
    "the same), or set 'spark.sql.legacy.parquet.nanosAsLong: true' under 'server_side_parameters' in the profile and take "
    "the column as BIGINT: timestamp_micros(ts div 1000)."
)


_NAMED = re.compile(r"reading file (?P<file>\S+?)\.(?:\s|$)")
_CUT = re.compile(
    r"[Uu]nexpected end of (?:\w+ )?(?:stream|file|input|block)|EOFException|Truncated|Premature EOF"
)
_NO_FOOTER = re.compile(r"is not a Parquet file|footer is too large|Malformed ORC file|Not a valid ORC file")
_MOVE_FILES = (
    "Write files elsewhere, or under a name that begins with '_' or '.', and move them into the folder when they are "
    "complete; the next run reads this one once it is."
)


def _truncated_file_message(text: str) -> str | None:
    """Returns the message on a truncated file, with what to do; None if the error is another one.

    >>> said = "Encountered error while reading file file:/d/a.json.gz. Caused by: Unexpected end of input stream"
    >>> print(_truncated_file_message(said).partition(". ")[0])
    the file file:/d/a.json.gz is truncated, or still being written
    >>> said = "Encountered error while reading file file:/d/a.parquet. Caused by: a.parquet is not a Parquet file."
    >>> print(_truncated_file_message(said).partition(": ")[0])
    the file file:/d/a.parquet doesn't end as a Parquet file does
    """
    if "FAILED_READ_FILE" not in text and "Encountered error while reading file" not in text:
        return None
    found = _NAMED.search(text)
    file = f"the file {unquote(found['file'])}" if found else "a file"
    if without := _NO_FOOTER.search(text):
        kind = "ORC" if "ORC" in without[0] else "Parquet"
        return (
            f"{file} doesn't end as a{'' if kind == 'Parquet' else 'n'} {kind} file does: it is truncated, or still "
            f"being written, or can't be read as {kind.lower()} at all. {_MOVE_FILES} If it is of another format, correct "
            "the source's format."
        )
    return f"{file} is truncated, or still being written. {_MOVE_FILES}" if _CUT.search(text) else None


def _header_message(text: str) -> str | None:
    """Returns the message on a CSV header that differs from the source's columns, with what to do; None if the error
    is another one.

    >>> said = "CSV header does not conform to the schema.\\n Header: b, a\\n Schema: a, b\\nExpected: a but found: b"
    >>> said += "\\nCSV file: file:/d/p.csv"
    >>> print(_header_message(said).partition("; ")[0])
    the header of the file file:/d/p.csv names the columns b, a, where the source has a, b
    """
    if found := _OTHER_HEADER.search(text):
        what = f"names the columns {found['header'].strip()}, where the source has {found['schema'].strip()}"
    elif found := _OTHER_LENGTH.search(text):
        what = f"has another number of columns ({found['header']}) than are read of the source ({found['schema']})"
    else:
        return None
    return (
        f"the header of the file {unquote(found['file'].strip())} {what}; fields are read by their places, so values would "
        "come into other columns. Declare the columns as 'schema' in the order of the header; or, if the places are right "
        "whatever the header says, set 'enforceSchema: true' in the source's options."
    )


def explain_file_error(text: str) -> str | None:
    """Returns the message on a file with another type or header or a truncated file; None if the error is another
    one.

    >>> said = "reading file file:/d/p.parquet. Data type mismatches when reading Parquet column [m, a]."
    >>> print(explain_file_error(f"{said} Expected Spark type int, actual Parquet type DOUBLE.").partition(". ")[0])
    the file file:/d/p.parquet has the column m.a as DOUBLE, and it is to be read as INT
    """
    if (header := _header_message(text)) is not None:
        return header
    if (end := _truncated_file_message(text)) is not None:
        return end
    if _NANOSECONDS.search(text):
        return f"a file has a timestamp in nanoseconds. {_OF_NANOSECONDS}"
    if (found := _OTHER_TYPE.search(text)) is None:
        if (found := _OTHER_AVRO_TYPE.search(text)) is None:
            return None
        return (
            f"a file has the column {found['column']} as {found['found'].upper()}, and it is to be read as "
            f"{found['expected'].upper()}. Correct the type in the source's schema, or have the file written with that type."
        )
    column, kind = found["column"].replace(", ", "."), _NAMES.get(found["found"], found["found"])
    what = f"the file {unquote(found['file'])} has the column {column} as"
    if found["found"] == "INT64" and found["expected"].startswith("timestamp"):
        return (
            f"{what} a number or a timestamp in nanoseconds (INT64), and it is to be read as {found['expected'].upper()}. "
            f"{_OF_NANOSECONDS}"
        )
    return (
        f"{what} {kind}, and it is to be read as {found['expected'].upper()}. Correct the type in the source's schema, or "
        "have the file written with that type."
    )
