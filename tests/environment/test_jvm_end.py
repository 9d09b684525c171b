"""How a JVM ended, from its exit code, the kernel's count of kills and Java's report."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dbt.adapters.spark_streaming.environment.jvm_end import describe_end, out_of_memory_kill_count


@pytest.mark.parametrize(
    ("code", "lines", "kills", "said"),
    [
        (
            -signal.SIGKILL,
            [],
            (0, 1),
            "for lack of memory since it started. Give it more: 'spark.driver.memory'",
        ),
        (-signal.SIGKILL, [], (3, 3), "killed by SIGKILL. The kernel reports no lack of memory."),
        (-signal.SIGKILL, [], (None, None), "(process 7) has ended: killed by SIGKILL."),
        (-signal.SIGSEGV, [], (0, 0), "(process 7) has ended: killed by SIGSEGV."),
        (
            3,
            ["java.lang.OutOfMemoryError: Java heap space"],
            (0, 0),
            "Its memory was used up (OutOfMemoryError).",
        ),
        (1, ["anything"], (0, 0), "(process 7) has ended with exit status 1."),
        (-99, [], (0, 0), "killed by signal 99."),
    ],
)
def test_how_a_jvm_ended(
    code: int, lines: list[str], kills: tuple[int | None, int | None], said: str, tmp_path: Path
) -> None:
    told = describe_end(7, code, lines, kills, tmp_path)
    assert said in told
    # A guess would send people to the wrong place.
    assert ("memory" in told.replace("reports no lack of memory", "")) == ("Give it more" in told)


def test_a_crash_points_to_javas_report(tmp_path: Path) -> None:
    report = tmp_path / "hs_err_pid7.log"
    report.write_text("#")
    assert describe_end(7, -signal.SIGABRT, (), (0, 0), tmp_path).endswith(
        f"Java's report of it is in {report}."
    )


def test_what_the_kernel_counts(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    assert out_of_memory_kill_count(tmp_path, own) is None
    own.write_text("0::/pod/box\n")
    assert out_of_memory_kill_count(tmp_path, own) is None
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    assert out_of_memory_kill_count(tmp_path, own) == 2
    (tmp_path / "pod/box").mkdir(parents=True)
    (tmp_path / "pod/box/memory.events").write_text("oom 1\noom_kill 1\noom_group_kill 0\n")
    assert out_of_memory_kill_count(tmp_path, own) == 1
    own.write_text("12:cpu,memory:/old\n1:name=systemd:/old\n")
    (tmp_path / "memory/old").mkdir(parents=True)
    (tmp_path / "memory/old/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert out_of_memory_kill_count(tmp_path, own) == 5
