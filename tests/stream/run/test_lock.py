"""A model has one writer: who else runs it is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel
from dbt.adapters.spark_streaming.stream.run import lock
from dbt.adapters.spark_streaming.stream.run.lock import check_free, is_held

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return StreamModel("m", "lake.db.m", "lake.db.m__state", Storage(str(tmp_path), lambda: None), ())


@pytest.fixture
def holder(model: StreamModel) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the model's lock, as the JVM of a run does."""
    Path(model.lock).parent.mkdir(parents=True)
    Path(model.lock).write_text(json.dumps({"pid": os.getpid()}))
    command = [sys.executable, "-c", HOLDS, model.lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_that_runs_the_model_is_named(
    model: StreamModel, holder: subprocess.Popen[str]
) -> None:
    assert is_held(model)
    with pytest.raises(StreamError) as refused:
        check_free(model)
    assert f"Model m: another run of it is in progress (process {os.getpid()} holds {model.lock})" in str(
        refused.value.msg
    )


def test_the_lock_ends_with_its_process(model: StreamModel, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert is_held(model) is False, "the file is there, and nobody holds it"
    check_free(model)


def test_a_model_that_never_ran_is_free(model: StreamModel) -> None:
    assert is_held(model) is False


def test_a_lock_that_cannot_be_read_is_not_taken_for_a_run(model: StreamModel) -> None:
    """Such as that of another user: waiting for the end of a run wouldn't help. Here a folder is in its place."""
    Path(model.lock).mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        check_free(model)


def test_remote_storage_has_no_locks() -> None:
    storage = Storage("s3a://bucket/root", lambda: None)
    model = StreamModel("m", "lake.db.m", "lake.db.m__state", storage, ())
    assert is_held(model) is None
    check_free(model)


@pytest.mark.parametrize(("looks", "is_refused"), [(0, False), (1, False), (2, True)])
def test_a_process_that_looks_whether_a_model_runs_does_not_keep_it_from_starting(
    model: StreamModel, looks: int, is_refused: bool
) -> None:
    """Such a look takes the lock for a moment. The file names the last run's process, which may start this one, too."""
    Path(model.lock).parent.mkdir(parents=True)
    Path(model.lock).write_text(json.dumps({"pid": os.getpid()}))
    answers = [None] * looks + [object()]

    class Channel:
        """Java's channel of the file."""

        def tryLock(self) -> object:
            return answers.pop(0)

    if not is_refused:
        lock._wait_for_lock(model, Channel())
        return
    with pytest.raises(StreamError, match="another run of it is in progress"):
        lock._wait_for_lock(model, Channel())
