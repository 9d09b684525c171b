"""Rejects files that would be read twice: names that Spark takes for patterns, and files that a pattern matches twice.

`DataSource.checkAndGlobPathIfNecessary` replaces each path that looks like a pattern by all paths, if globbing is
turned off. A micro-batch with a single file reads it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...sources.file_options import is_pattern, matched_twice_message
from ..common.errors import StreamError
from ..common.model import plain_path
from ..common.session import jvm
from ..storage.checkpoint import file_entries, files_of_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import StreamModel, StreamSource

_LETTERS = r"[\*\?\[\]\{\}\\]"


def check_folder(
    spark: SparkSession, model: StreamModel, source: StreamSource, place: int | None = None
) -> None:
    """Raises if Spark takes the name of an unread file for a pattern, unless each micro-batch reads one file. `place`: the
    source's place in the model's checkpoint; None if nothing of it was read."""
    if source.option("maxFilesPerTrigger") == "1":
        return
    named = _pattern_like_files(spark, source)
    globs = {plain_path(path): path for path in named if is_pattern(path)}
    if not globs:
        return
    # Files of this folder that another source of the model has read are unread here.
    log = file_entries(model.storage, model.checkpoint, place) if place is not None else ()
    read = {plain_path(unquote(path)) for path in log}
    if new := sorted(globs[path] for path in globs.keys() - read):
        raise StreamError(
            f"Model {model.name}: {_path_text(new[0])}. Give it another name, or have each file be a micro-batch: "
            f"'maxFilesPerTrigger: 1' in the options of the source {source.relation} (which --full-refresh doesn't mind)."
        )


def _pattern_like_files(spark: SparkSession, source: StreamSource) -> Iterator[str]:
    """Yields the files whose path below the source's folder has one of `_LETTERS`, and maybe other files. Spark reads the
    files of a folder and of subfolders that name a partition (``day=1``), or of all subfolders."""
    path_of = jvm(spark).org.apache.hadoop.fs.Path
    system = path_of(source.location).getFileSystem(spark._jsc.hadoopConfiguration())

    def matches(pattern: str) -> list[Any]:
        return list(system.globStatus(path_of(pattern)) or ())

    every = source.option_is("recursiveFileLookup", "true")
    below = "*" if every else "*=*"
    folder = source.location.rstrip("/")
    # The file system filters the names, since there may be many.
    found = matches(folder if not folder.endswith("*") else f"{folder}{_LETTERS}*") if "*" in folder else []
    while True:
        found += matches(f"{folder}/*{_LETTERS}*")
        for each in found:
            path = each.getPath()
            if each.isFile():
                yield path.toString()
            elif every or "=" in path.getName():
                files = system.listFiles(path, True)
                while files.hasNext():
                    yield files.next().getPath().toString()
        folder, found = f"{folder}/{below}", []
        if not any(each.isDirectory() for each in matches(folder)):
            return


def check_batch(model: StreamModel, number: int) -> None:
    """Raises if a micro-batch has a file twice, or several files of a source and Spark takes a name for a pattern."""
    for place, source in enumerate(model.sources):
        if not source.is_files:
            continue
        paths = files_of_batch(model.storage, model.checkpoint, place, number)
        if twice := [path for path, times in Counter(paths).items() if times > 1]:
            raise StreamError(
                f"Model {model.name}: of its stream {source.relation}, {matched_twice_message(twice[0], source.location)} "
                f"The micro-batch was planned with it already, so none of its rows was ingested. Then rebuild the model: "
                f"{model.rebuild}."
            )
        if len(paths) > 1 and (globs := list(filter(is_pattern, paths))):
            raise StreamError(
                f"Model {model.name}: {_path_text(globs[0])}. The micro-batch was planned with it already, so none of its "
                f"rows was ingested. Give it another name, and rebuild the model: {model.rebuild}."
            )


def _path_text(path: str) -> str:
    return (
        f"the file {path} has one of the letters * ? [ ] {{ }} \\ in its path, which Spark takes for a pattern: it would "
        "read the other files of the same micro-batch twice"
    )
