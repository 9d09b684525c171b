"""Runs Python models in this process."""

from __future__ import annotations

import importlib
import linecache
import sys
import threading
import traceback
import warnings
from functools import cache, partial
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment.spark_errors import readable_error
from dbt.adapters.spark_streaming.util.metadata_columns import check_column_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_IMPORTING = threading.Lock()
_PANDAS_API = "pyspark.pandas"


@cache
def _import_pandas_api() -> ImportError | None:
    """Imports Spark's pandas API. Returns the error if it doesn't support the installed pandas. Later imports then fail at
    once. A second attempt in another thread would let the first continue with half a module."""
    try:
        with warnings.catch_warnings():
            # It warns that an environment variable isn't set, and sets it.
            warnings.filterwarnings("ignore", message="'PYARROW_IGNORE_TIMEZONE'")
            importlib.import_module(_PANDAS_API)
    except ImportError as problem:
        sys.modules[_PANDAS_API] = None  # type: ignore[assignment]
        return problem
    return None


def run_python_model(name: str, code: str, session: SparkSession) -> None:
    """Runs a compiled Python model: its function, and dbt's code that writes the result.

    Raises:
        DbtRuntimeError: the model fails. The message has the line of the model.
    """
    with _IMPORTING:
        pandas_api_problem = _import_pandas_api()
    file = f"<python model {name}>"
    # So that tracebacks and `inspect` find the lines.
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    try:
        exec(
            compile(code, file, "exec"),
            {
                "__name__": file,
                "spark": session,
                "check_column_names": partial(check_column_names, f"Model {name}"),
            },
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
        reason = readable_error(problem)
        is_import = isinstance(problem, ImportError) and f"{problem.name}.".startswith(f"{_PANDAS_API}.")
        if pandas_api_problem and is_import:
            reason = (
                f"Spark's pandas API can't be used with the pandas that is installed: {pandas_api_problem}"
            )
        raise DbtRuntimeError(
            f"The Python model failed with {type(problem).__name__}{text}\n{reason}"
        ) from problem
    finally:
        linecache.cache.pop(file, None)
