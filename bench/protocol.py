"""How `compare.py` and the processes of its peers speak: a line of JSON with a request, a line of JSON with the answer.

Only Python's own library is imported, for Flink's process has nothing of this project. Whatever else a process prints
(Java's warnings, a stream's rows) may stand between the answers, which begin with a mark.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_MARK = "@@ "


def serve(requests: dict[str, Callable[..., Any]]) -> None:
    """Answers requests by name until there are no more. A problem is an answer, too."""
    _answer({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            _answer({"is": requests[asked.pop("do")](**asked)})
        except Exception as problem:
            # A Java exception's text has its stack trace; the log has it too.
            print(problem, file=sys.stderr, flush=True)
            _answer({"problem": f"{type(problem).__name__}: {_essence(str(problem))}"})


def _essence(text: str) -> str:
    """The last cause of a Java exception, or the first line.

    >>> _essence("a: b\n\tat c\nCaused by: d: e\n\tat f")
    'd: e'
    """
    lines = text.splitlines() or [""]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1 if causes else 0][:300]


def _answer(found: dict[str, Any]) -> None:
    print(f"{_MARK}{json.dumps(found)}", flush=True)


class Failed(Exception):
    """A peer could not do what it was asked for."""


class TooSlow(Failed):
    """It hasn't answered in time."""


class Peer:
    """A peer's process, as `compare.py` sees it."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.lines: list[tuple[float, str]] = []
        """What it printed beside its answers since `listen`, and when."""
        self._listening = False
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        began = time.monotonic()
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self._wait()
        self.start = {"wall": time.monotonic() - began, "cpu": self.cpu()}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                self._answers.put(json.loads(line[len(_MARK) :]))
            elif self._listening:
                self.lines.append((time.time(), line))
            else:
                self._log.write(line)
        self._answers.put(None)

    def _wait(self, limit: float | None = None) -> Any:
        try:
            answer = self._answers.get(timeout=limit)
        except queue.Empty:
            raise TooSlow(f"{self.name} wasn't done after {limit:g} s") from None
        if answer is None:
            raise Failed(f"{self.name} ended; its log is {self._log.name}.")
        if "problem" in answer:
            raise Failed(f"{self.name}: {answer['problem']}")
        return answer.get("is")

    def ask(self, do: str, limit: float | None = None, **what: Any) -> Any:
        """Its answer to a request.

        Args:
            do: what is asked for.
            limit: how many seconds that may take.
            what: arguments of the request.

        Raises:
            Failed: what went wrong.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self._process.stdin.flush()
        return self._wait(limit)

    def measured(self, do: str, limit: float | None = None, **what: Any) -> dict[str, Any]:
        """Its answer, with the wall and CPU seconds that it took."""
        began, spent = time.monotonic(), self.cpu()
        answer = self.ask(do, limit, **what)
        return {"wall": time.monotonic() - began, "cpu": self.cpu() - spent, **(answer or {})}

    def listen(self, whether: bool) -> None:
        """Keep what it prints, from now on or not any more."""
        if whether:
            self.lines = []
        self._listening = whether

    def cpu(self) -> float:
        """CPU seconds so far, of the process and of all that it started."""
        return sum(tree(self._process.pid).values()) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it, when it has done what it is at."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End it and all that it started, now."""
        for process in tree(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()


def tree(root: int) -> dict[int, int]:
    """A process and all below it, with the clock ticks of each: its own, and those of children that it waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))

    def below(process: int | None) -> bool:
        while process and process != root:
            process = parents.get(process)
        return process == root

    return {process: each for process, each in ticks.items() if below(process)}
