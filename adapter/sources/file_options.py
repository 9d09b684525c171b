"""Spark's options for reading sources. Spark ignores unknown options, so those that a stream doesn't read are
rejected.

The names are those that Spark 4.1 registers for its formats (`CSVOptions`, `JSONOptions`, `FileIndexOptions`), and
those of its file stream (`FileStreamOptions`). A name that resembles none of them goes to Spark: it may be an option
of a later version or of a file system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

_PATTERN = re.compile(r"[\*\?\[\]\{\}\\]")


def by_lower_name(options: Mapping[str, str]) -> dict[str, str]:
    """Returns options by their names in lower case, as Spark looks them up.

    >>> by_lower_name({"multiLine": "TRUE"})
    {'multiline': 'TRUE'}
    """
    return {name.lower(): str(value) for name, value in options.items()}


def is_true(options: Mapping[str, str], name: str) -> bool:
    """Returns whether an option is set to true.

    >>> is_true({"multiline": "TRUE"}, "multiLine"), is_true({}, "header")
    (True, False)
    """
    return by_lower_name(options).get(name.lower(), "").lower() == "true"


def is_pattern(path: str) -> bool:
    """Returns whether Spark interprets a path as a pattern.

    >>> is_pattern("file:///in/part[1].csv"), is_pattern("file:///in/a b%.csv")
    (True, False)
    """
    return _PATTERN.search(path) is not None


def pattern_prefix(path: str) -> str:
    """Returns a path up to its first pattern character.

    >>> pattern_prefix("/in/day[12]/*.csv"), pattern_prefix("/in")
    ('/in/day', '/in')
    """
    return _PATTERN.split(path, maxsplit=1)[0]


def pattern_like_folder_message(path: str) -> str:
    """Returns the message on a folder whose own name Spark interprets as a pattern, so that it would read other
    folders."""
    return (
        f"the folder {path} has one of the letters * ? [ ] {{ }} \\ in its path, which Spark takes for a pattern, so it "
        "would read what the pattern matches. Give the folder another name."
    )


def path_matched_twice(matches: Iterable[tuple[str, bool]], is_recursive: bool) -> str | None:
    """Returns a file or folder that Spark would read twice: the pattern matches it twice, or its folder as well.

    Args:
        matches: what a pattern matches: path, and whether it is a folder.
        is_recursive: whether subfolders of a folder are read, too.

    >>> path_matched_twice([("/in/a", True), ("/in/a/x.json", False)], False)
    '/in/a/x.json'
    >>> path_matched_twice([("/in/x", False)] * 2, False)
    '/in/x'
    >>> [path_matched_twice([("/in/a", True), ("/in/a/day=1", True)], is_recursive) for is_recursive in (False, True)]
    [None, '/in/a/day=1']
    """
    listed = list(matches)
    folders, seen = {path for path, is_folder in listed if is_folder}, set()
    for path, is_folder in listed:
        above = path.rpartition("/")[0]
        if path in seen or (above in folders and (is_recursive or not is_folder)):
            return path
        while is_recursive and above:
            above = above.rpartition("/")[0]
            if above in folders:
                return path
        seen.add(path)
    return None


def matched_twice_message(path: str, pattern: str) -> str:
    """Returns the message on a file that a pattern has Spark read twice."""
    return (
        f"its path {pattern} matches {path} twice, or together with the folder that it is in, so Spark would read its rows "
        "twice. Write a pattern that matches each file once."
    )


_BY_POSITION = "enforceSchema"


def with_checked_header(format: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the options to read files with, so that a header's names are checked unless the options say otherwise.

    Spark reads fields of CSV by position, and compares the names in a header only if `enforceSchema` is false.

    >>> with_checked_header("csv", {"Header": "TRUE"})
    {'Header': 'TRUE', 'enforceSchema': 'false'}
    >>> with_checked_header("csv", {}), with_checked_header("csv", {"header": "true", "enforceschema": "true"})
    ({}, {'header': 'true', 'enforceschema': 'true'})
    """
    if format != "csv" or not is_true(options, "header") or _BY_POSITION.lower() in by_lower_name(options):
        return options
    return {**options, _BY_POSITION: "false"}


_OF_ALL = """path basePath ignoreCorruptFiles ignoreMissingFiles ignoreInvalidPartitionPaths modifiedAfter modifiedBefore
pathGlobFilter recursiveFileLookup timeZone compression mode columnNameOfCorruptRecord maxFilesPerTrigger maxBytesPerTrigger
latestFirst maxFileAge fileNameOnly cleanSource sourceArchiveDir maxCachedFiles discardCachedInputRatio"""
_OF_TEXTS = """charset encoding dateFormat timestampFormat timestampNTZFormat timeFormat enableDateTimeParsingFallback
inferSchema inferTimestamp lineSep locale multiLine samplingRatio singleVariantColumn prefersDecimal preferDate nullValue"""
_OF = {
    "csv": """charToEscapeQuoteEscaping columnPruning comment delimiter emptyValue enforceSchema escape header
        ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inputBufferSize maxCharsPerColumn maxColumns nanValue negativeInf
        positiveInf quote sep unescapedQuoteHandling""",
    "json": """allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
        allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull ignoreNullFields
        maxNestingDepth maxNumLen maxStringLen primitivesAsString useUnsafeRow""",
    "xml": """attributePrefix excludeAttribute ignoreNamespace ignoreSurroundingSpaces rowTag rowValidationXSDPath
        useLegacyXMLParser valueTag wildcardColName""",
    "text": "wholetext",
    "parquet": "datetimeRebaseMode int96RebaseMode mergeSchema",
    "orc": "mergeSchema",
    "avro": """avroSchema avroSchemaUrl datetimeRebaseMode enableStableIdentifiersForUnionType ignoreExtension
        positionalFieldMatching recordName recordNamespace recursiveFieldMaxDepth stableIdentifierPrefixForUnionType""",
}


def misspelt_options(format: str, options: Iterable[str]) -> Mapping[str, str]:
    """Returns option → known option with the most similar name, for options that the format doesn't have.

    >>> misspelt_options("csv", ["Header", "maxFilesPerTriger", "seperator", "fs.s3a.access.key", "vendorsOwn", "rowTag"])
    {'maxFilesPerTriger': 'maxFilesPerTrigger'}
    """
    known = {name.lower(): name for name in _options_of(format)}
    found = {}
    for option in options:
        if option.lower() not in known and "." not in option:
            for like in get_close_matches(option.lower(), known, n=1, cutoff=0.8):
                found[option] = known[like]
    return found


_TEXTS = frozenset(
    """attributePrefix charToEscapeQuoteEscaping comment delimiter emptyValue escape lineSep locale nanValue negativeInf
    nullValue positiveInf quote rowTag sep valueTag""".lower().split()
)
"""Options whose values are texts of the files, such as NULL or NO, which mean something else in YAML."""


def yaml_text_problem(option: str, value: object) -> str | None:
    """Returns why the value of an option can't be the text that somebody has written; None if it can.

    >>> yaml_text_problem("nullValue", None)
    'is null, which YAML makes of NULL, ~ and what begins with #. Put the text in quotes, or leave the option out.'
    >>> yaml_text_problem("NullValue", False)
    'is false, which YAML makes of NO, OFF and FALSE. Put the text in quotes, or leave the option out.'
    >>> print(yaml_text_problem("lineSep", ""))
    is empty: dbt drops a line break at the end of a text. Write "\\n\\n" for a line feed, or leave the option out.
    >>> yaml_text_problem("nullValue", "NULL"), yaml_text_problem("quote", ""), yaml_text_problem("header", True)
    (None, None, None)
    """
    if option.lower() not in _TEXTS:
        return None
    if option.lower() == "linesep" and value == "":
        return (
            'is empty: dbt drops a line break at the end of a text. Write "\\n\\n" for a line feed, or leave the option '
            "out."
        )
    made_of = {None: "NULL, ~ and what begins with #", True: "YES, ON and TRUE", False: "NO, OFF and FALSE"}
    if value is not None and not isinstance(value, bool):
        return None
    shown = "null" if value is None else str(value).lower()
    return (
        f"is {shown}, which YAML makes of {made_of[value]}. Put the text in quotes, or leave the option out."
    )


def encoding_problem(format: str, options: Mapping[str, str]) -> str | None:
    r"""Returns why Spark can't divide files of an encoding into lines; None if it can. Spark looks for the byte of a
    line feed, which is one of several bytes in UTF-16 and UTF-32, and expects their byte order mark in each line.

    >>> print(encoding_problem("csv", {"encoding": "utf-16"}))
    is utf-16, in which Spark doesn't find the ends of lines: write 'multiLine: true' next to it.
    >>> print(encoding_problem("json", {"charset": "UTF-16LE"}).partition(": ")[2])
    write 'multiLine: true' next to it, or lineSep: "\n\n".
    >>> encoding_problem("csv", {"encoding": "UTF-16", "multiLine": "true"}), encoding_problem("csv", {})
    (None, None)
    """
    values = by_lower_name(options)
    encoding = values.get("encoding", values.get("charset", ""))
    name = re.sub("[-_ ]", "", encoding.upper())
    if (
        format not in ("csv", "json")
        or not name.startswith(("UTF16", "UTF32"))
        or is_true(options, "multiLine")
    ):
        return None
    has_mark = name in ("UTF16", "UTF32")
    if not has_mark and "linesep" in values:
        return None
    remedy = "write 'multiLine: true' next to it" + ("" if has_mark else ', or lineSep: "\\n\\n"')
    return f"is {encoding}, in which Spark doesn't find the ends of lines: {remedy}."


_OF_TABLES = """streaming-max-files-per-micro-batch streaming-max-rows-per-micro-batch streaming-skip-delete-snapshots
streaming-skip-overwrite-snapshots streaming-snapshot-polling-interval-ms stream-from-timestamp
async-micro-batch-planning-enabled async-queue-preload-file-limit async-queue-preload-row-limit batch-size file-open-cost
locality lookback split-size vectorization-enabled"""
_OF_KAFKA = """assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp startingOffsets
startingOffsetsByTimestampStrategy failOnDataLoss kafkaConsumer.pollTimeoutMs fetchOffset.numRetries
fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition
groupIdPrefix includeHeaders"""
_READ_BY = {"iceberg": _OF_TABLES, "kafka": _OF_KAFKA}


def unread_options(format: str, options: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Returns option → the options that a stream of the format reads, the most similar first, for those that it
    doesn't read. Empty for file formats: what Spark reads there depends on more than the format.

    >>> sorted(unread_options("iceberg", ["branch", "Streaming-Max-Rows-Per-Micro-Batch"]))
    ['branch']
    >>> unread_options("kafka", ["kafka.group.id", "maxOffsetPerTrigger"])["maxOffsetPerTrigger"][0]
    'maxOffsetsPerTrigger'
    """
    known = {name.lower(): name for name in _READ_BY.get(format, "").split()}
    return {
        option: [
            *(known[like] for like in get_close_matches(option.lower(), known, n=1, cutoff=0.8)),
            *known.values(),
        ]
        for option in options
        if known
        and option.lower() not in known
        and not (format == "kafka" and option.lower().startswith("kafka."))
    }


def known_options() -> Mapping[str, Sequence[str]]:
    """Returns the options of each format.

    >>> known_options()["iceberg"][0], "rowTag" in known_options()["xml"], "rowTag" in known_options()["csv"]
    ('streaming-max-files-per-micro-batch', True, False)
    """
    files = {format: _options_of(format) for format in _OF}
    return files | {format: texts.split() for format, texts in _READ_BY.items()}


def _options_of(format: str) -> Sequence[str]:
    texts = "" if format in ("parquet", "orc", "avro") else _OF_TEXTS
    return f"{_OF_ALL} {texts} {_OF.get(format, '')}".split()
