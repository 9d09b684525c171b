"""Runs Python models in this process."""

from __future__ import annotations

import importlib
import linecache
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.spark_errors import readable
from dbt.adapters.spark_streaming.util.metadata_columns import reserved_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_IMPORTING = threading.Lock()


def _import_pandas_api() -> None:
    """Imports Spark's pandas API, which dbt's code around a Python model imports, in one thread at a time: of two that
    begin at once, one finds the package without it."""
    with _IMPORTING, suppress(ImportError):
        importlib.import_module("pyspark.pandas")


def _check_column_names(name: str, columns: Sequence[str]) -> None:
    if (reserved := reserved_name(columns)) is not None:
        raise DbtRuntimeError(f"Model {name}: {reserved}")


def run_python_model(name: str, code: str, session: SparkSession) -> None:
    """Runs a compiled Python model: its function, and dbt's code that writes the result.

    Raises:
        DbtRuntimeError: the model fails. The message has the line of the model.
    """
    _import_pandas_api()
    file = f"<python model {name}>"
    # So that tracebacks and `inspect` find the lines.
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    try:
        exec(
            compile(code, file, "exec"),
            {"__name__": file, "spark": session, "check_table_names": partial(_check_column_names, name)},
        )
    except DbtRuntimeError:
        raise
    except Exception as problem:
        lines = [
            frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == file
        ]
        if isinstance(problem, SyntaxError) and problem.filename == file:
            lines.append(problem.lineno)
        text = ""
        if lines and lines[-1]:
            text = f", at: {linecache.getline(file, lines[-1]).strip()}"
        raise DbtRuntimeError(
            f"The Python model failed with {type(problem).__name__}{text}\n{readable(problem)}"
        ) from problem
    finally:
        linecache.cache.pop(file, None)
