"""Ctrl-C and SIGTERM, once and twice: no trace of Python's."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import IO

import pytest

# A shell has what it runs in the background ignore Ctrl-C, these tests too.
_FIRST = """
from dbt.adapters.spark_streaming.cli.interrupts import recording_signals, exiting_without_trace
import atexit, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_SAID = "Stopped at once. What wasn't committed yet is done by the next run.\n"


def _until(output: IO[str], said: str) -> None:
    assert output.readline() == f"{said}\n"


def _interrupted(text: str, number: signal.Signals, then: str) -> tuple[int, str]:
    """Exit code and errors of a process that gets a signal when it says `ready`, and one more when it says `then`."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", _FIRST + text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        _until(process.stdout, "ready")
        process.send_signal(number)
        _until(process.stdout, then)
        process.send_signal(number)
        return process.wait(30), process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_ends_what_the_first_lets_end(number: signal.Signals) -> None:
    text = """
with recording_signals() as found:
    print("ready")
    while not found:
        time.sleep(0.01)
    print("ending")
    time.sleep(60)
"""
    assert _interrupted(text, number, "ending") == (128 + number, _SAID)


def test_the_second_ends_what_python_does_at_its_end() -> None:
    text = """
def stop():
    print("stopping Spark")
    time.sleep(60)

atexit.register(stop)
with exiting_without_trace():
    print("ready")
    time.sleep(60)
"""
    assert _interrupted(text, signal.SIGINT, "stopping Spark") == (128 + signal.SIGINT, _SAID)


def test_the_second_comes_while_the_first_is_answered() -> None:
    text = """
with exiting_without_trace():
    try:
        print("ready")
        time.sleep(60)
    finally:
        print("cleaning up")
        time.sleep(60)
"""
    assert _interrupted(text, signal.SIGINT, "cleaning up") == (128 + signal.SIGINT, "")
