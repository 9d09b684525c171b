"""Describes how a JVM ended: its exit status, and lack of memory if the kernel or Java reports it."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_MORE = (
    "Give it more: 'spark.driver.memory' under 'server_side_parameters' in the profile (2g where it says nothing), within "
    "what this machine or container allows."
)


def describe_end(
    pid: int,
    code: int,
    last_lines: Iterable[str] = (),
    kills: tuple[int | None, int | None] = (None, None),
    folder: Path = Path(),
) -> str:
    """Returns how a JVM ended, in a sentence or two.

    Args:
        code: its exit code as Python reports it; negative for a signal.
        kills: the kernel's number of kills for lack of memory, when it started and when it had ended.

    >>> describe_end(7, 1)
    "Spark's JVM (process 7) has ended with exit status 1."
    >>> describe_end(7, -9, kills=(2, 2))
    "Spark's JVM (process 7) has ended: killed by SIGKILL. The kernel reports no lack of memory."
    """
    if code < 0:
        try:
            how = f"has ended: killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"has ended: killed by signal {-code}"
    else:
        how = f"has ended with exit status {code}"
    ending = f"Spark's JVM (process {pid}) {how}."
    before, after = kills
    if before is not None and after is not None and after > before:
        return f"{ending} The kernel has killed a process of this group for lack of memory since it started. {_MORE}"
    if any("OutOfMemoryError" in line for line in last_lines):
        return f"{ending} Its memory was used up (OutOfMemoryError). {_MORE}"
    if (report := folder / f"hs_err_pid{pid}.log").exists():
        return f"{ending} Java's report of it is in {report.resolve()}."
    if code == -signal.SIGKILL and after is not None:
        return f"{ending} The kernel reports no lack of memory."
    return ending


def out_of_memory_kill_count(cgroups: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Returns how often the kernel has killed a process of this control group for lack of memory, or None if unknown."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    files = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        name = path.lstrip("/")
        if not controllers:
            files += [cgroups / name / "memory.events", cgroups / "memory.events"]
        elif "memory" in controllers.split(","):
            memory = cgroups / "memory"
            files += [memory / name / "memory.oom_control", memory / "memory.oom_control"]
    for file in files:
        try:
            words = [line.split() for line in file.read_text().splitlines()]
            return next(int(value) for key, value in words if key == "oom_kill")
        except (OSError, ValueError, StopIteration):
            continue
    return None
