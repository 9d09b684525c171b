"""The environment of ``method: session``: Spark in a JVM that this process starts."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import Environment

from ..sources import connectors
from ..sources.connectors import ICEBERG_VERSION
from ..sources.source_tables import CATALOG as _SPARKS_CATALOG
from ..util.redaction import redacted_cause, without_secrets
from ..util.sizes import parse_size
from .class_data import ClassData, LoadedClasses
from .copied_root import check_not_copied
from .file_sources import DeclaredSources
from .java import (
    COMPILER,
    Java,
    Jvm,
    choose_python,
    find_java,
    spark_home,
    truststore_flags,
    write_truststore,
)
from .packages import ICEBERG, LOCAL_FILES, LOCAL_FILES_CLASS, SQLITE, default_cache, jars_of_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..credentials import SparkStreamingCredentials
    from .storage import Storage

logger = AdapterLogger("Spark")

_MEMORY_OF_PARALLEL = 16 << 30
"""Maximum heap size in bytes for Java's parallel garbage collector."""

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_DELTA_EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


class SessionEnvironment(Environment):
    """A Spark driver that ends with this process."""

    def __init__(self, credentials: SparkStreamingCredentials) -> None:
        super().__init__(credentials)
        self._lock = threading.RLock()
        self._jvm: Jvm | None = None
        self._java: Java | None = None
        self._session: SparkSession | None = None
        self._classes: ClassData | None = None

    @property
    def settings(self) -> dict[str, str]:
        return spark_settings(self.credentials, self.storage)

    def session(self) -> SparkSession:
        from pyspark.java_gateway import ensure_callback_server_started

        with self._lock:
            if self._session is None:
                session = self._start_session()
                # Streams call Python through py4j's callback server, whose start closes all connections to the JVM. So it is
                # started here, while no other thread has one: py4j would send a pending command again, and Java execute
                # it twice.
                ensure_callback_server_started(session.sparkContext._gateway)
                self._session = session
            return self._session

    def _start_session(self) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        conf = spark_settings(self.credentials, self.storage)
        if _has_embedded_catalog(self.credentials):
            check_not_copied(self.storage)
        root = without_secrets(self.storage.root)
        if SparkContext._active_spark_context is not None:
            return _use_existing_session(SparkSession.builder.getOrCreate(), conf)
        if self.storage.is_local:
            try:
                os.makedirs(self.storage.warehouse, exist_ok=True)
                self.storage.hide_from_git()
            except OSError as problem:
                raise DbtRuntimeError(
                    f"The storage root {root} can't be written: {problem.strerror}. Name another "
                    "folder as 'storage_root' in the profile."
                ) from problem
        self._java = find_java()
        cache = Path(self.credentials.cache_dir) if self.credentials.cache_dir else default_cache()
        found = jars_of_packages(required_packages(self.credentials), self._java, cache, conf)
        paths = [str(path) for path in found]
        self._classes = ClassData(self._java, [*sorted(spark_home().glob("jars/*.jar")), *found], cache)
        conf.pop("spark.jars.packages", None)
        # The driver, which is also the executor in local mode, has the jars on its class path. Other executors fetch them.
        before = _split_list(conf.pop("spark.driver.extraClassPath", ""), os.pathsep)
        if not self.credentials.is_local:
            conf["spark.jars"] = ",".join([*paths, *_split_list(conf.get("spark.jars", ""), ",")])
        choose_python(conf)
        # pyspark and py4j print stack traces of failed statements and micro-batches, which dbt reports.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        logging.getLogger("py4j.clientserver").disabled = True
        logging.getLogger().addFilter(_is_not_from_py4j)
        self._jvm = Jvm(
            self._java, flags=self._java_flags(conf, cache), classpath=paths, before=before, conf=conf
        )
        SparkContext._gateway = self._jvm.gateway
        SparkContext._jvm = self._jvm.gateway.jvm
        try:
            session = SparkSession(SparkContext(conf=SparkConf()))
        except Exception as problem:
            self.close()
            cause = getattr(problem, "java_exception", problem)
            raise DbtRuntimeError(
                f"Spark didn't start: {without_secrets(str(cause).splitlines()[0])}"
            ) from redacted_cause(problem)
        logger.debug(f"Spark {session.version} on Java {self._java}, storage root {root}")
        return session

    def _java_flags(self, conf: dict[str, str], cache: Path) -> list[str]:
        assert self._java is not None
        assert self._classes is not None
        memory = conf["spark.driver.memory"]
        flags = [f"-Xmx{memory}", *COMPILER, *self._classes.flags()]
        if region := _g1_region_size(memory):
            flags.append(f"-XX:G1HeapRegionSize={region}")
        if self._java.from_wheel:
            truststore = cache / "truststore.jks"
            write_truststore(truststore)
            flags += truststore_flags(truststore)
        # Last, so that they override the others.
        for key in ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"):
            flags += conf.get(key, "").split()
        return [*_garbage_collector_flag(memory, [*flags, *_java_environment_flags(os.environ)]), *flags]

    def enter_job_group(self, group: str, description: str = "") -> None:
        # Interrupting is safe: it only affects tasks, whose output isn't committed.
        self.session().sparkContext.setJobGroup(group, description, interruptOnCancel=True)

    def cancel(self, group: str) -> None:
        if self._session is None:
            return
        self.speed_up_close()
        self.stop_streams()
        self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def versions(self) -> dict[str, str]:
        session: Any = self.session()
        java = self._java or session._jvm.java.lang.System.getProperty("java.version")
        return {"Spark": session.version, "Iceberg": iceberg_version(session), "Java": str(java)}

    def stop_streams(self) -> None:
        """See `Environment.stop_streams`. Each stream runs in its own session, so the shared state has to be read."""
        streams = self.session()._jsparkSession.sharedState().activeStreamingQueries()
        for query in list(streams.values()):
            query.stop()

    def jvm_end_message(self) -> str | None:
        jvm = self._jvm
        return None if jvm is None else jvm.end_message()

    def speed_up_close(self) -> None:
        """See `Environment.speed_up_close`. Skips the archive of classes, which takes up to half a minute to write."""
        self._classes = None

    def close(self) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if self._session is not None and self._jvm is not None and self._jvm.is_alive:
            # Before taking the lock: a micro-batch that stopping waits for may need the lock.
            try:
                self.stop_streams()
            except Exception as problem:
                logger.debug(f"While stopping streams: {without_secrets(problem)}")
        with self._lock:
            session, jvm = self._session, self._jvm
            self._session = self._jvm = None
            self.declared = DeclaredSources(self.session)
            if jvm is None:
                return  # this process didn't start Spark
            if session is not None and jvm.is_alive:
                try:
                    if self._classes and self._classes.is_wanted:
                        self._classes.write_archive(LoadedClasses(session))
                    session.stop()
                except Exception as problem:
                    logger.debug(f"While stopping Spark: {without_secrets(problem)}")
            jvm.gateway.shutdown()
            jvm.close()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = None


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Filters out py4j's stack trace of an ended JVM in the root logger. The failed statement reports it."""
    return record.module != "java_gateway"


def required_packages(credentials: SparkStreamingCredentials) -> list[str]:
    """Returns the Maven coordinates of all packages that a target needs."""
    more = _split_list(credentials.server_side_parameters.get("spark.jars.packages", ""), ",")
    own = [ICEBERG]
    if _has_embedded_catalog(credentials):
        own.append(SQLITE)
        if credentials.is_local:
            own.append(LOCAL_FILES)
    return [*own, *connectors.maven_coordinates(credentials.packages), *more]


def spark_settings(credentials: SparkStreamingCredentials, storage: Storage) -> dict[str, str]:
    """Returns Spark's settings for a target: the adapter's, overridden by the profile's.

    Raises:
        DbtRuntimeError: the target has the embedded catalog on remote storage.
    """
    conf = {
        "spark.master": credentials.master,
        "spark.app.name": "dbt-spark-streaming",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Each stream has its own pool.
        "spark.scheduler.mode": "FAIR",
        # Limits for the UI's history, which Spark keeps in memory even without a UI.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.sql.streaming.ui.retainedQueries": "5",
        "spark.sql.streaming.ui.retainedProgressUpdates": "5",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "false",
        # Models are in the Iceberg catalog. The built-in one only has the tables of declared sources, which each process
        # creates again.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": storage.path("spark-warehouse"),
        "spark.sql.defaultCatalog": credentials.catalog,
        # Each statement lists a source's folder again, so that it sees new files.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.hive.manageFilesourcePartitions": "false",
        # Large enough that the generated code of a micro-batch stays cached until the next one.
        "spark.sql.codegen.cache.maxEntries": "2000",
    }
    if credentials.is_local:
        limit = re.match(r"local\[(\d+)", credentials.master)
        cores = int(limit[1]) if limit else _processor_count()
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, cores)),
        }
        if _has_embedded_catalog(credentials):
            conf["spark.hadoop.fs.file.impl"] = LOCAL_FILES_CLASS
    if storage.is_local:
        # Writes checkpoints without checksum files, which may not match their file after a kill. (Tables need the checksum
        # file system: Iceberg reads a file system's scheme, which the raw one doesn't have.)
        conf["spark.hadoop.fs.AbstractFileSystem.file.impl"] = "org.apache.hadoop.fs.local.RawLocalFs"
    conf |= catalog_settings(credentials, storage)
    extensions, connected = [ICEBERG_EXTENSIONS], [*credentials.packages]
    if _has_delta(credentials):
        conf[f"spark.sql.catalog.{_SPARKS_CATALOG}"] = _DELTA_CATALOG
        extensions.append(_DELTA_EXTENSIONS)
        connected.append("delta")
    conf |= credentials.server_side_parameters
    _prepend_to_setting(conf, "spark.jars.excludes", connectors.excluded_packages(connected))
    _prepend_to_setting(conf, "spark.sql.extensions", extensions)
    if str(conf["spark.ui.enabled"]).lower() == "false":
        # Spark explains each statement for the UI, even if it is off.
        conf.setdefault("spark.sql.ui.explainMode", "simple")
    if credentials.is_local:
        conf.setdefault("spark.buffer.pageSize", _page_size(conf["spark.driver.memory"]))
    return conf


def _has_delta(credentials: SparkStreamingCredentials) -> bool:
    """Whether the target has a package of Delta, whose tables are in Spark's own catalog.

    Raises:
        DbtRuntimeError: Spark's own catalog is the one for Iceberg tables.
    """
    if not any(":delta-spark_" in package for package in required_packages(credentials)):
        return False
    if credentials.catalog == _SPARKS_CATALOG:
        raise DbtRuntimeError(
            "The profile has a package of Delta, whose tables are in Spark's own catalog, and 'catalog: "
            f"{_SPARKS_CATALOG}', which puts Iceberg tables there. Give the Iceberg catalog another name."
        )
    return True


def _prepend_to_setting(conf: dict[str, str], key: str, values: Iterable[str]) -> None:
    """Puts values in front of the values of a setting that is a list."""
    if listed := dict.fromkeys([*values, *_split_list(conf.get(key, ""), ",")]):
        conf[key] = ",".join(listed)


def _processor_count() -> int:
    """Returns the number of processors that this process may use."""
    # macOS doesn't limit the processors of a process.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _page_size(memory: str) -> str:
    """Returns the size of the memory pages of Spark's tasks, for a heap size of the driver.

    Spark's default is 64 MB for two tasks in 2 GB. Each broadcast hash table occupies a page until it is garbage collected,
    even if it has one row, and a micro-batch makes many. A task may have 8,192 pages, which here is 4 times the heap.

    >>> _page_size("2g"), _page_size("600m"), _page_size("48G"), _page_size("16384")
    ('1m', '1m', '16m', '8m')
    """
    pages = (parse_size(memory, plain=1 << 20) or 0) >> 31
    return f"{min(64, 1 << max(0, pages.bit_length() - 1))}m"


def _java_environment_flags(environment: Mapping[str, str]) -> list[str]:
    """Returns the flags that Java reads from environment variables."""
    return [
        flag
        for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
        for flag in environment.get(name, "").split()
    ]


def _garbage_collector_flag(memory: str, flags: Sequence[str]) -> list[str]:
    """Returns the flag of Java's garbage collector, unless the user's flags choose one.

    With the parallel collector a micro-batch takes 5 % less CPU than with G1, which has barriers in all compiled code. But
    it stops all threads while it collects, which takes long for a large heap.

    >>> _garbage_collector_flag("2g", []), _garbage_collector_flag("48g", [])
    (['-XX:+UseParallelGC'], [])
    >>> _garbage_collector_flag("2g", ["-XX:+UseG1GC"]), _garbage_collector_flag("2g", ["@flags.txt"])
    ([], [])
    """
    is_small = (parse_size(memory, plain=1 << 20) or 0) <= _MEMORY_OF_PARALLEL
    # A file of flags (@file) may choose one, too.
    is_chosen = any(re.fullmatch(r"-XX:\+Use\w+GC|@.+", flag) for flag in flags)
    return ["-XX:+UseParallelGC"] if is_small and not is_chosen else []


def _g1_region_size(memory: str) -> str | None:
    """Returns the region size of Java's garbage collector G1. Other collectors ignore it.

    An object larger than half a region gets separate regions, which may trigger a marking of the whole heap. With
    Java's default (1 MB in 2 GB) the pages of `_page_size` do, several times in each micro-batch.

    >>> _g1_region_size("2g"), _g1_region_size("600m"), _g1_region_size("48G"), _g1_region_size("64m")
    ('16m', '4m', '32m', None)
    """
    regions = (parse_size(memory, plain=1 << 20) or 0) >> 27
    return f"{min(32, 1 << (regions.bit_length() - 1))}m" if regions else None


def catalog_settings(credentials: SparkStreamingCredentials, storage: Storage) -> dict[str, str]:
    """Returns Spark's settings for the Iceberg catalog of a target.

    Raises:
        DbtRuntimeError: the target has the embedded catalog on remote storage.
    """
    options = dict(credentials.catalog_options)
    if _has_embedded_catalog(credentials):
        if not storage.is_local:
            raise DbtRuntimeError(
                f"The storage root {without_secrets(storage.root)} isn't on this machine, but the embedded catalog is a "
                "SQLite file. Name a catalog with 'catalog_options' in the profile (type: rest, hive, glue, jdbc …)."
            )
        options = {
            "type": "jdbc",
            # So that several processes can read the catalog while one writes.
            "uri": f"jdbc:sqlite:{storage.catalog}?busy_timeout=60000&journal_mode=WAL",
            "jdbc.schema-version": "V1",  # views
            "warehouse": storage.warehouse,
        } | options
    # With a cache, a session doesn't see commits of a stream, which has its own session.
    options = {"cache-enabled": "false"} | options
    prefix = f"spark.sql.catalog.{credentials.catalog}"
    kind = "SparkSessionCatalog" if credentials.catalog == _SPARKS_CATALOG else "SparkCatalog"
    return {prefix: f"org.apache.iceberg.spark.{kind}"} | {f"{prefix}.{k}": v for k, v in options.items()}


def _has_embedded_catalog(credentials: SparkStreamingCredentials) -> bool:
    return not {"type", "catalog-impl"} & credentials.catalog_options.keys()


def _use_existing_session(session: SparkSession, conf: dict[str, str]) -> SparkSession:
    """Uses an existing session of this process, of a notebook or the driver of a cluster's job."""
    logger.debug("Using the Spark session that this process has already")
    for key, value in conf.items():
        if session.conf.isModifiable(key) or key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    return session


def iceberg_version(session: Any) -> str:
    try:
        return str(session.sql("select system.iceberg_version()").head()[0])
    except Exception:
        return f"not found ({ICEBERG_VERSION} is expected)"


def _split_list(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
