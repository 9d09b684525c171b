"""Spark in a JVM of our own."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import Environment
from dbt.adapters.spark_streaming.environment.class_data import ClassData
from dbt.adapters.spark_streaming.environment.file_sources import DeclaredSources
from dbt.adapters.spark_streaming.environment.java import (
    COMPILER,
    Java,
    Jvm,
    choose_python,
    find_java,
    spark_home,
    truststore_flags,
    write_truststore,
)
from dbt.adapters.spark_streaming.environment.packages import (
    ICEBERG,
    ICEBERG_VERSION,
    LOCAL_FILES,
    LOCAL_FILES_CLASS,
    SQLITE,
    default_cache,
    jars,
)
from dbt.adapters.spark_streaming.util.redaction import cause_of, without_secrets
from dbt.adapters.spark_streaming.util.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dbt.adapters.spark_streaming.credentials import SparkStreamingCredentials
    from dbt.adapters.spark_streaming.environment.storage import Storage

logger = AdapterLogger("Spark")

_MEMORY_OF_PARALLEL = 16 << 30
"""Bytes up to which Java's memory is collected by its parallel collector."""

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class SessionEnvironment(Environment):
    """A Spark driver that lives and dies with this process."""

    def __init__(self, credentials: SparkStreamingCredentials) -> None:
        super().__init__(credentials)
        self._lock = threading.RLock()
        self._jvm: Jvm | None = None
        self._java: Java | None = None
        self._session: SparkSession | None = None
        self._classes: ClassData | None = None

    @property
    def settings(self) -> dict[str, str]:
        """See `Environment.settings`."""
        return settings(self.credentials, self.storage)

    def session(self) -> SparkSession:
        """See `Environment.session`."""
        from pyspark.java_gateway import ensure_callback_server_started

        with self._lock:
            if self._session is None:
                session = self._start()
                # Streams call Python. What lets them do so closes all connections to the JVM, so it is begun here, where
                # no other thread has one: py4j would send a command again whose answer it hasn't got, and Java do it twice.
                ensure_callback_server_started(session.sparkContext._gateway)
                self._session = session
            return self._session

    def _start(self) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        conf = settings(self.credentials, self.storage)
        root = without_secrets(self.storage.root)
        if SparkContext._active_spark_context is not None:
            return _join(SparkSession.builder.getOrCreate(), conf)
        if self.storage.is_local:
            try:
                os.makedirs(self.storage.warehouse, exist_ok=True)
            except OSError as problem:
                raise DbtRuntimeError(
                    f"The storage root {root} can't be written: {problem.strerror}. Name another "
                    "folder as 'storage_root' in the profile."
                ) from problem
        self._java = find_java()
        cache = (
            Path(self.credentials.cache_dir).expanduser() if self.credentials.cache_dir else default_cache()
        )
        found = jars(packages(self.credentials), self._java, cache, conf)
        paths = [str(path) for path in found]
        self._classes = ClassData(self._java, [*sorted(spark_home().glob("jars/*.jar")), *found], cache)
        conf.pop("spark.jars.packages", None)
        # On the class path they need not be copied for an executor that is this JVM. Others fetch them from here.
        before = _split(conf.pop("spark.driver.extraClassPath", ""), os.pathsep)
        if not self.credentials.is_local:
            conf["spark.jars"] = ",".join([*paths, *_split(conf.get("spark.jars", ""), ",")])
        choose_python(conf)
        # pyspark prints each error of a statement as JSON with a stack trace; dbt reports it.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        # Nor the trace of a micro-batch that failed, which is told in a sentence.
        logging.getLogger("py4j.clientserver").disabled = True
        logging.getLogger().addFilter(_is_not_py4js)
        self._jvm = Jvm(self._java, flags=self._flags(conf, cache), classpath=paths, before=before, conf=conf)
        SparkContext._gateway = self._jvm.gateway
        SparkContext._jvm = self._jvm.gateway.jvm
        try:
            session = SparkSession(SparkContext(conf=SparkConf()))
        except Exception as problem:
            self.close()
            cause = getattr(problem, "java_exception", problem)
            raise DbtRuntimeError(
                f"Spark didn't start: {without_secrets(str(cause).splitlines()[0])}"
            ) from cause_of(problem)
        logger.debug(
            f"Spark {session.version} on Java {self._java}, storage root {without_secrets(self.storage.root)}"
        )
        return session

    def _flags(self, conf: dict[str, str], cache: Path) -> list[str]:
        assert self._java is not None
        assert self._classes is not None
        memory = conf["spark.driver.memory"]
        flags = [f"-Xmx{memory}", *COMPILER, *self._classes.flags()]
        if region := _region_size(memory):
            flags.append(f"-XX:G1HeapRegionSize={region}")
        if self._java.from_wheel:
            truststore = cache / "truststore.jks"
            write_truststore(truststore)
            flags += truststore_flags(truststore)
        # Last, so that they win.
        for key in ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"):
            flags += conf.get(key, "").split()
        return [*_collector(memory, [*flags, *_java_reads(os.environ)]), *flags]

    def enter(self, group: str, description: str = "") -> None:
        """See `Environment.enter`."""
        # Interrupting is safe here: it reaches tasks only, and what they wrote isn't committed.
        self.session().sparkContext.setJobGroup(group, description, interruptOnCancel=True)

    def cancel(self, group: str) -> None:
        """See `Environment.cancel`."""
        if self._session is None:
            return
        self.hurry()
        self.stop_streams()
        self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def versions(self) -> dict[str, str]:
        """See `Environment.versions`."""
        session = self.session()
        return {
            "Spark": session.version,
            "Iceberg": iceberg_version(session),
            "Java": str(self._java) if self._java else _java_of(session),
        }

    def stop_streams(self) -> None:
        """See `Environment.stop_streams`. Each works in a session of its own, and asks for its streams in vain elsewhere."""
        streams = self.session()._jsparkSession.sharedState().activeStreamingQueries()
        for query in list(streams.values()):
            query.stop()

    def ended(self) -> str | None:
        """See `Environment.ended`."""
        jvm = self._jvm
        return None if jvm is None else jvm.ended()

    def hurry(self) -> None:
        """See `Environment.hurry`. To write the archive of classes takes up to half a minute."""
        self._classes = None

    def close(self) -> None:
        """See `Environment.close`."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if self._session is not None and self._jvm is not None and self._jvm.alive:
            # Before the lock, for which a micro-batch may wait that is waited for.
            try:
                self.stop_streams()
            except Exception as problem:
                logger.debug(f"While stopping streams: {without_secrets(problem)}")
        with self._lock:
            session, jvm = self._session, self._jvm
            self._session = self._jvm = None
            self.declared = DeclaredSources(self.session)
            if jvm is None:
                return  # someone else's Spark
            if session is not None and jvm.alive:
                try:
                    if self._classes and self._classes.wanted:
                        self._classes.write(session)
                    session.stop()
                except Exception as problem:
                    logger.debug(f"While stopping Spark: {without_secrets(problem)}")
            jvm.gateway.shutdown()
            jvm.close()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = None


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """py4j has the root logger tell of a JVM that ended, with a trace. The statement that met with it tells it, too."""
    return record.module != "java_gateway"


def packages(credentials: SparkStreamingCredentials) -> list[str]:
    """The coordinates of all that Spark needs for a target."""
    more = _split(credentials.server_side_parameters.get("spark.jars.packages", ""), ",")
    own = [ICEBERG]
    if _is_embedded(credentials):
        own.append(SQLITE)
        if credentials.is_local:
            own.append(LOCAL_FILES)
    return [*own, *credentials.packages, *more]


def settings(credentials: SparkStreamingCredentials, storage: Storage) -> dict[str, str]:
    """Spark's settings for a target: ours, then the profile's over them.

    Raises:
        DbtRuntimeError: the embedded catalog is asked for where it can't be.
    """
    cores = _cores(credentials.master)
    conf = {
        "spark.master": credentials.master,
        "spark.app.name": "dbt-spark-streaming",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Each stream has a pool of its own.
        "spark.scheduler.mode": "FAIR",
        # Without a UI nobody looks back at what ran; a stream that goes on all day would keep it all the same.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.sql.streaming.ui.retainedQueries": "5",
        "spark.sql.streaming.ui.retainedProgressUpdates": "5",
        "spark.sql.session.timeZone": "UTC",
        # Models' tables are in the Iceberg catalog; the built-in one holds nothing but the
        # sources that are files, which are declared anew in each process.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": storage.path("spark-warehouse"),
        "spark.sql.defaultCatalog": credentials.catalog,
        # A source's folder is listed anew by each statement, so that new files are seen.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.hive.manageFilesourcePartitions": "false",
        # Each text of a micro-batch is compiled once if it isn't thrown out in between.
        "spark.sql.codegen.cache.maxEntries": "2000",
    }
    if credentials.is_local:
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, cores)),
        }
        if _is_embedded(credentials):
            conf["spark.hadoop.fs.file.impl"] = LOCAL_FILES_CLASS
    if storage.is_local:
        # Streams' checkpoints without a checksum beside each file, which a killed process can
        # leave in disagreement with it. (Tables can't do without: Iceberg asks a file system
        # for its scheme, and the raw one doesn't say.)
        conf["spark.hadoop.fs.AbstractFileSystem.file.impl"] = "org.apache.hadoop.fs.local.RawLocalFs"
    conf |= catalog_settings(credentials, storage)
    conf |= credentials.server_side_parameters
    if str(conf["spark.ui.enabled"]).lower() == "false":
        # Each statement is explained to the UI, at length.
        conf.setdefault("spark.sql.ui.explainMode", "simple")
    if credentials.is_local:
        conf.setdefault("spark.buffer.pageSize", _page_size(conf["spark.driver.memory"]))
    extensions = [ICEBERG_EXTENSIONS, *_split(conf.get("spark.sql.extensions", ""), ",")]
    conf["spark.sql.extensions"] = ",".join(dict.fromkeys(extensions))
    return conf


def _page_size(memory: str) -> str:
    """Of the pages in which Spark's tasks take memory, by how much the driver has.

    Spark would choose 64 MB for two tasks in 2 GB. Each hash table that is sent out, be it of one row, has a page of its own
    until Java collects it, and a micro-batch makes many. A task has at most 8,192 pages, here 4 times all memory.

    >>> _page_size("2g"), _page_size("600m"), _page_size("48G"), _page_size("16384")
    ('1m', '1m', '16m', '8m')
    """
    pages = (size(memory, plain=1 << 20) or 0) >> 31
    return f"{min(64, 1 << max(0, pages.bit_length() - 1))}m"


def _java_reads(environment: Mapping[str, str]) -> list[str]:
    """The flags that Java takes from environment variables."""
    return [
        flag
        for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
        for flag in environment.get(name, "").split()
    ]


def _collector(memory: str, flags: Sequence[str]) -> list[str]:
    """Java's garbage collector, where nobody says which.

    The parallel one stops all for as long as it collects, and leaves the rest of the time to the work: a micro-batch costs
    some 5 % less CPU than with G1, whose bookkeeping is in each compiled method. Of a large memory a stop would be long.

    >>> _collector("2g", []), _collector("48g", []), _collector("2g", ["-XX:+UseG1GC"]), _collector("2g", ["@flags.txt"])
    (['-XX:+UseParallelGC'], [], [], [])
    """
    is_small = (size(memory, plain=1 << 20) or 0) <= _MEMORY_OF_PARALLEL
    # A file of flags may say so, too.
    is_told = any(re.fullmatch(r"-XX:\+Use\w+GC|@.+", flag) for flag in flags)
    return ["-XX:+UseParallelGC"] if is_small and not is_told else []


def _region_size(memory: str) -> str | None:
    """Of the regions that Java's garbage collector G1 takes memory in, which other collectors pass over.

    What is larger than half a region it puts into regions of its own, and each of these may make it look through all
    memory. With Java's choice (1 MB in 2 GB) the pages of `_page_size` do, several times in each micro-batch.

    >>> _region_size("2g"), _region_size("600m"), _region_size("48G"), _region_size("64m")
    ('16m', '4m', '32m', None)
    """
    regions = (size(memory, plain=1 << 20) or 0) >> 27
    return f"{min(32, 1 << (regions.bit_length() - 1))}m" if regions else None


def catalog_settings(credentials: SparkStreamingCredentials, storage: Storage) -> dict[str, str]:
    """Spark's settings for the Iceberg catalog of a target.

    Raises:
        DbtRuntimeError: the embedded catalog is asked for where it can't be.
    """
    options = dict(credentials.catalog_options)
    if _is_embedded(credentials):
        if not storage.is_local:
            raise DbtRuntimeError(
                f"The storage root {without_secrets(storage.root)} isn't on this machine, but the embedded catalog is a "
                "SQLite file. Name a catalog with 'catalog_options' in the profile (type: rest, hive, glue, jdbc …)."
            )
        options = {
            "type": "jdbc",
            # Several processes may look at the catalog while one writes.
            "uri": f"jdbc:sqlite:{storage.catalog}?busy_timeout=60000&journal_mode=WAL",
            "jdbc.schema-version": "V1",  # views
            "warehouse": storage.warehouse,
        } | options
    # With a cache a session doesn't see what a stream, which has a session of its own, wrote.
    options = {"cache-enabled": "false"} | options
    prefix = f"spark.sql.catalog.{credentials.catalog}"
    kind = "SparkSessionCatalog" if credentials.catalog == "spark_catalog" else "SparkCatalog"
    return {prefix: f"org.apache.iceberg.spark.{kind}"} | {f"{prefix}.{k}": v for k, v in options.items()}


def _is_embedded(credentials: SparkStreamingCredentials) -> bool:
    return not {"type", "catalog-impl"} & credentials.catalog_options.keys()


def _join(session: SparkSession, conf: dict[str, str]) -> SparkSession:
    """Use the session that is there already: a notebook's, or the driver of a cluster's job."""
    logger.debug("Using the Spark session that this process has already")
    for key, value in conf.items():
        if session.conf.isModifiable(key) or key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    return session


def iceberg_version(session: Any) -> str:
    """The version of Iceberg that a session has."""
    try:
        return str(session.sql("select system.iceberg_version()").head()[0])
    except Exception:
        return f"not found ({ICEBERG_VERSION} is expected)"


def _java_of(session: SparkSession) -> str:
    jvm: Any = session._jvm
    return str(jvm.java.lang.System.getProperty("java.version"))


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+)", master)
    return int(found.group(1)) if found else len(os.sched_getaffinity(0))


def _split(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
