"""Class data sharing: an archive of loaded classes that speeds up the next start of the JVM.

Starting Spark mostly means loading ten thousand classes. Java can write them to an archive and map it at the next start,
which saves two fifths of the CPU time of a start. An archive fits one Java with one class path; Java silently ignores one
that doesn't fit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from .java import Java

logger = AdapterLogger("Spark")

KEPT = 3
"""Number of archives to keep, of more than 100 MB each. There is one per installed Spark."""

WORTH_KEEPING = 18_000
"""Minimum number of loaded classes to write an archive of. `dbt debug` and `dbt show` load 16,000 to 17,000, the first run
of a small table 20,000, that of a small stream 27,000. An archive is written once, so it has to contain the classes of a
run."""

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


class LoadedClasses:
    """The classes that a session's JVM has loaded."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def class_count(self) -> int:
        beans = self._session._jvm.java.lang.management.ManagementFactory
        return int(beans.getClassLoadingMXBean().getTotalLoadedClassCount())

    def dump_archive(self, archive: Path) -> str:
        """Writes an archive of the loaded classes; returns the JVM's output."""
        return self.run_diagnostic_command("vmCds", "dynamic_dump", str(archive))

    def run_diagnostic_command(self, name: str, *arguments: str) -> str:
        """Runs a diagnostic command inside the JVM, as ``jcmd``, which a JRE lacks, does from outside."""
        jvm, gateway = self._session._jvm, self._session.sparkContext._gateway

        def java_array(of: Any, values: Sequence[Any]) -> Any:
            result = gateway.new_array(of, len(values))
            for index, value in enumerate(values):
                result[index] = value
            return result

        strings, objects = jvm.java.lang.String, jvm.java.lang.Object
        server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
        # Uses reflection on the interface, because py4j can't access the server's own class.
        methods = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        invoke = next(method for method in methods if method.getName() == "invoke")
        call = [
            bean,
            name,
            java_array(objects, [java_array(strings, arguments)]),
            java_array(strings, ["[Ljava.lang.String;"]),
        ]
        return str(invoke.invoke(server, java_array(objects, call)))


class ClassData:
    """The archive of a Java and a class path."""

    def __init__(self, java: Java, jars: Sequence[Path], cache: Path) -> None:
        self._java = java
        self._folder = cache / "classes"
        # An archive depends on the order of the class path: Spark's jars come first.
        digest = hashlib.sha256(f"{java.executable.resolve()} {java.version} Spark first".encode())
        for jar in jars:
            state = jar.stat()
            digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}".encode())
        self.archive = self._folder / f"{digest.hexdigest()[:16]}.jsa"
        self._base = self._folder / f"{digest.hexdigest()[:16]}.base"
        self._failed = self.archive.with_suffix(".failed")

    @property
    def is_wanted(self) -> bool:
        """Whether there is no archive yet and one would be useful. In CI it isn't: the cache is lost after the run."""
        return not (self.archive.exists() or self._failed.exists() or os.environ.get("CI"))

    def flags(self) -> list[str]:
        """Returns JVM flags to use the archive, or to be able to write one."""
        try:
            base = self._base_flags()
        except (OSError, subprocess.SubprocessError) as problem:
            logger.debug(f"No class data sharing: {problem}")
            return []
        if self.archive.exists():
            files = os.pathsep.join([*(str(self._base) for _ in base), str(self.archive)])
            return [f"-XX:SharedArchiveFile={files}", *QUIET]
        return [*base, "-XX:+RecordDynamicDumpInfo", *QUIET] if self.is_wanted else []

    def _base_flags(self) -> list[str]:
        """Returns JVM flags for the archive of Java's own classes, which ours extends. A JRE from a wheel lacks it, so it is
        written first."""
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

    def write_archive(self, classes: LoadedClasses) -> None:
        """Writes an archive of the classes that a JVM has loaded, if there are enough. Takes some seconds."""
        partial = self.archive.with_suffix(f".{os.getpid()}")
        try:
            if classes.class_count() < WORTH_KEEPING:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            logger.debug(f"Writing class data for faster starts to {self.archive}")
            output = classes.dump_archive(partial)
            if not partial.exists():
                raise RuntimeError(output)
            partial.replace(self.archive)
            for old in sorted(self._folder.glob("*.jsa"), key=os.path.getmtime)[:-KEPT]:
                old.unlink(missing_ok=True)
                old.with_suffix(".base").unlink(missing_ok=True)
        except Exception as problem:
            logger.debug(f"No class data sharing: {problem}")
            partial.unlink(missing_ok=True)
            self._failed.touch()
