"""Classes that the JVM has loaded and checked before, kept for the next start.

Starting Spark is mostly loading ten thousand classes. Java can write what came of it to an archive
(class data sharing) and map that the next time, which saves two fifths of the CPU time of a start.
The archive fits one Java with one class path; where it doesn't fit, Java goes without and says
nothing.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.spark_streaming.environment.java import Java

logger = AdapterLogger("Spark")

KEPT = 3
"""Archives, of a good 100 MB each. There is one per installed Spark."""

WORTH_KEEPING = 18_000
"""Classes that a JVM has loaded when it has built a model. `dbt debug` and `dbt show` end with 16,000 to 17,000; the first
run of a small table with 20,000, of a small stream with 27,000. The archive isn't made again, so it waits for these."""

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


class ClassData:
    """The archive for a Java and a class path."""

    def __init__(self, java: Java, jars: Sequence[Path], cache: Path) -> None:
        self._java = java
        self._folder = cache / "classes"
        # The archive is of an order of jars, too: Spark's come first.
        digest = hashlib.sha256(f"{java.executable.resolve()} {java.version} Spark first".encode())
        for jar in jars:
            state = jar.stat()
            digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}".encode())
        self.archive = self._folder / f"{digest.hexdigest()[:16]}.jsa"
        self._base = self._folder / f"{digest.hexdigest()[:16]}.base"
        self._failed = self.archive.with_suffix(".failed")

    @property
    def wanted(self) -> bool:
        """Whether there is none and one could be of use. It isn't where all is thrown away after the run."""
        return not (self.archive.exists() or self._failed.exists() or os.environ.get("CI"))

    def flags(self) -> list[str]:
        """JVM flags to use the archive, or to be able to write one."""
        try:
            base = self._base_flags()
        except (OSError, subprocess.SubprocessError) as problem:
            logger.debug(f"No class data sharing: {problem}")
            return []
        if self.archive.exists():
            files = os.pathsep.join([*(str(self._base) for _ in base), str(self.archive)])
            return [f"-XX:SharedArchiveFile={files}", *QUIET]
        return [*base, "-XX:+RecordDynamicDumpInfo", *QUIET] if self.wanted else []

    def _base_flags(self) -> list[str]:
        """A JRE from a wheel lacks the archive of its own classes, which ours builds upon."""
        if not self._java.from_wheel:
            return []
        if not self._base.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = self._base.with_suffix(f".{os.getpid()}")
            subprocess.run(
                [str(self._java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={partial}"],
                check=True,
                capture_output=True,
                timeout=120,
            )
            partial.replace(self._base)
        return [f"-XX:SharedArchiveFile={self._base}"]

    def write(self, session: Any) -> None:
        """Write the archive of what a session's JVM has loaded by now, if that is worth it. It takes some seconds, once."""
        partial = self.archive.with_suffix(f".{os.getpid()}")
        try:
            if _loaded(session) < WORTH_KEEPING:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            logger.debug(f"Writing class data for faster starts to {self.archive}")
            said = _diagnostic_command(session, "vmCds", "dynamic_dump", str(partial))
            if not partial.exists():
                raise RuntimeError(said)
            partial.replace(self.archive)
            for old in sorted(self._folder.glob("*.jsa"), key=os.path.getmtime)[:-KEPT]:
                old.unlink(missing_ok=True)
                old.with_suffix(".base").unlink(missing_ok=True)
        except Exception as problem:
            logger.debug(f"No class data sharing: {problem}")
            partial.unlink(missing_ok=True)
            self._failed.touch()


def _loaded(session: Any) -> int:
    beans = session._jvm.java.lang.management.ManagementFactory
    return int(beans.getClassLoadingMXBean().getTotalLoadedClassCount())


def _diagnostic_command(session: Any, name: str, *arguments: str) -> str:
    """What ``jcmd`` does from outside, which a JRE hasn't got."""
    jvm, gateway = session._jvm, session.sparkContext._gateway

    def array(of: Any, values: Sequence[Any]) -> Any:
        made = gateway.new_array(of, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    strings, objects = jvm.java.lang.String, jvm.java.lang.Object
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    # By reflection on the interface: the class of the server itself is closed to py4j.
    methods = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
    invoke = next(method for method in methods if method.getName() == "invoke")
    call = [bean, name, array(objects, [array(strings, arguments)]), array(strings, ["[Ljava.lang.String;"])]
    return str(invoke.invoke(server, array(objects, call)))
