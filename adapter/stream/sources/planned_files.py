"""Checks that the files of a planned micro-batch still exist: Spark reads a missing file as empty.

Structured Streaming lists a folder when it plans, and reads later: in the next micro-batches of a run, or in the next
run after a crash. It reports no error for files that were moved away in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.errors import StreamError
from ..common.session import jvm
from ..storage.checkpoint import files_of_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..common.model import StreamModel, StreamSource


def check_files_exist(spark: SparkSession, model: StreamModel, number: int) -> None:
    """Raises if a file of a micro-batch is missing, unless its source has `ignoreMissingFiles`."""
    for place, source in enumerate(model.sources):
        if not source.is_files or _ignores_missing_files(spark, source):
            continue
        paths = files_of_batch(model.storage, model.checkpoint, place, number)
        if paths and (gone := _missing_files(spark, paths)):
            others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise StreamError(
                f"Model {model.name}: micro-batch {number} was planned with the file {gone[0]}{others} of its source "
                f"{source.relation}, which {'are' if others else 'is'} no longer there: its rows would be missing. "
                "None of the micro-batch's rows was ingested. Put back what is gone and run again; or, to continue "
                "without it, write 'ignoreMissingFiles: true' in the options of the source."
            )


def _ignores_missing_files(spark: SparkSession, source: StreamSource) -> bool:
    by_default = spark.conf.get("spark.sql.files.ignoreMissingFiles", "false")
    setting = source.option("ignoreMissingFiles") or by_default
    return str(setting).lower() == "true"


def _missing_files(spark: SparkSession, paths: list[str]) -> list[str]:
    """Returns the files that don't exist. Spark checks all at once, in threads; only if one is missing, each is checked."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.classic.column import _to_seq

    java = jvm(spark)
    source = getattr(getattr(java.org.apache.spark.sql.execution.datasources, "DataSource$"), "MODULE$")
    conf, files = spark._jsparkSession.sessionState().newHadoopConf(), _to_seq(spark.sparkContext, paths)
    try:
        source.checkAndGlobPathIfNecessary(files, conf, False, True, java.Integer.valueOf(40), False)
    except AnalysisException:
        made = java.org.apache.hadoop.fs.Path
        return [path for path in paths if not made(path).getFileSystem(conf).exists(made(path))]
    return []
