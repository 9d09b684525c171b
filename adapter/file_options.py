"""Spark's options for reading files, so that one that is misspelt is told: Spark passes over what it doesn't know.

The names are those that Spark 4.1 registers for its formats (`CSVOptions`, `JSONOptions`, `FileIndexOptions`), and those of
its file stream (`FileStreamOptions`). What is like none of them is left to Spark: it may be a later version's, or a file
system's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

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


def misspelt(format: str, options: Iterable[str]) -> Mapping[str, str]:
    """By an option that the format hasn't the one that its name is most like.

    >>> misspelt("csv", ["Header", "maxFilesPerTriger", "seperator", "fs.s3a.access.key", "vendorsOwn", "rowTag"])
    {'maxFilesPerTriger': 'maxFilesPerTrigger'}
    """
    texts = "" if format in ("parquet", "orc", "avro") else _OF_TEXTS
    known = {name.lower(): name for name in f"{_OF_ALL} {texts} {_OF.get(format, '')}".split()}
    found = {}
    for option in options:
        if option.lower() not in known and "." not in option:
            for like in get_close_matches(option.lower(), known, n=1, cutoff=0.8):
                found[option] = known[like]
    return found
