"""A streaming model as the running code sees it: names, paths and settings, without its plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...environment.storage import Storage
from ...query.program import CHANGES
from ...sources.limits import without_limits
from ...sources.unreadable import WARN
from .identifiers import last_part, parts, with_suffix
from .lookup_source import LookupSource

STATE = "__state"
"""Suffix of a model's table name for its state."""
NEW, PREVIOUS = "__deploy_", "__previous_"
"""Suffixes of the tables of a model's new and previous version. A deployment's id follows."""
RESTORING = ".restoring"
_BESIDE = re.compile(rf"(?:{NEW}|{PREVIOUS})[0-9a-f]{{8}}\Z")
MIGRATE, FAIL = "migrate", "fail"
FROM_NOW, BACKFILL = "from_now", "backfill"
APPEND_NEW, SYNC, IGNORE = "append_new_columns", "sync_all_columns", "ignore"
CHANGELOG_RETENTION = 7 * 86_400_000_000
"""Microseconds: Kafka's default retention of a topic."""


@dataclass(frozen=True)
class Retention:
    """Limits of the snapshots and the file size of a table."""

    max_snapshot_age: int = 86_400_000_000
    """Microseconds. A query needs the snapshot with which it began until it ends."""
    max_snapshots: int = 500
    """Maximum number of snapshots to keep. Snapshots above the maximum age are not kept."""
    target_file_size: int = 64 << 20
    """Bytes."""


@dataclass(frozen=True)
class StreamSource:
    """A source that a `StreamInput` reads: a table, a folder or Kafka topics."""

    relation: str
    """Name of the source in `StreamInput.relation`."""
    location: str
    """Name of a table or path of a folder; empty for Kafka."""
    format: str = "iceberg"
    """``iceberg`` for a table; ``kafka``; ``parquet``, ``json``, ``csv``, ``orc`` or ``text`` for a folder."""
    schema: str | None = None
    """Columns and types, as in CREATE TABLE: of a folder's files (None if inferred) or of the values of Kafka messages
    (None if the values are not parsed)."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's options for reading the format as a stream. They may contain secrets."""
    name: str = ""
    """Name for messages: ``source.table``, as in the dbt project."""
    on_error: str = WARN
    """Treatment of records that can't be read: one of `unreadable.ON_ERROR`."""

    @property
    def is_table(self) -> bool:
        return self.format == "iceberg"

    @property
    def is_files(self) -> bool:
        """Whether the source is a folder of files."""
        return self.format not in ("iceberg", "kafka")

    def option(self, name: str) -> str | None:
        """Returns the value of an option, or None if it isn't set. Case of the name doesn't matter.

        >>> source = StreamSource("s", "/in", options={"cleanSource": "DELETE"})
        >>> source.option("cleansource"), source.option("path")
        ('DELETE', None)
        """
        return {key.lower(): value for key, value in self.options.items()}.get(name.lower())

    def option_is(self, name: str, value: str) -> bool:
        """Returns whether an option has a value. Case of the name and of the value doesn't matter."""
        return (self.option(name) or "").lower() == value.lower()

    def holds(self, file: str) -> bool:
        """Returns whether a file is in the folder, with or without ``file:`` in either path. A location with a glob
        pattern is compared up to the pattern.

        >>> [StreamSource("s", path).holds("file:///d/in/a.csv") for path in ("/d/in", "/d/i", "/d/*/*.csv", "/d/x*")]
        [True, False, True, False]
        """
        plain, pattern, _ = re.split(r"([*?\[{]|$)", plain_path(self.location), maxsplit=1)
        return plain_path(file).startswith(plain if pattern else f"{plain}/")


def changelog_name(table: str) -> str:
    """Returns the name of a table's changelog."""
    return with_suffix(table, CHANGES)


def file_key(table: str) -> str:
    """Returns a file name for a table's full name, different for any two tables of a target.

    >>> file_key("lakehouse.shop.orders"), file_key("lakehouse.shop.`my orders`")
    ('lakehouse.shop.orders', 'lakehouse.shop.my_orders-b42515ff')
    """
    plain = ".".join(parts(table))
    safe = re.sub(r"[^\w.-]", "_", plain)
    if safe == plain and plain.count(".") == len(parts(table)) - 1:
        return safe
    # The hash distinguishes names that differ only in the replaced characters.
    return f"{safe}-{hashlib.sha256(table.encode()).hexdigest()[:8]}"


def is_state_or_changelog_name(relation: str) -> bool:
    """Returns whether a relation has the name of a streaming model's state or changelog.

    >>> is_state_or_changelog_name("shop.`Orders__STATE`"), is_state_or_changelog_name("shop.states")
    (True, False)
    """
    return last_part(relation).lower().endswith((STATE, CHANGES))


def is_deployment_version(table: str) -> bool:
    """Returns whether a table name, or the file name of a table, is one of a deployment's new or previous version.

    >>> is_deployment_version("shop.orders__previous_0a1b2c3d"), is_deployment_version("shop.orders__deploy")
    (True, False)
    """
    return _BESIDE.search(table) is not None


def plain_path(location: str) -> str:
    """Returns the path of a folder or file without ``file:`` and without a slash at its end.

    >>> plain_path("file:///data/in/"), plain_path("/data/in"), plain_path("s3://data/in")
    ('/data/in', '/data/in', 's3://data/in')
    """
    return re.sub(r"^file:/+", "/", location).rstrip("/")


@dataclass(frozen=True)
class Constraint:
    """A condition that each row has to meet."""

    broken: str
    """SQL condition over the table's columns for rows that violate the constraint."""
    says: str
    """The condition in words, for a message, without a full stop."""


@dataclass(frozen=True)
class StreamModel:
    """A model that is maintained incrementally from streams."""

    name: str
    """The model's name in dbt: for messages, `--select` and Spark's query name."""
    target: str
    """Name of the model's table. The materialization creates it; the stream writes its rows."""
    state: str
    """Name of its state, an Iceberg table that the stream creates."""
    storage: Storage
    """Storage of the checkpoint, the lock and the progress file."""
    sources: tuple[StreamSource, ...]
    """One source for each `StreamInput`."""
    lookups: tuple[LookupSource, ...] = ()
    """External tables that its lookup joins query by key."""
    changelog: bool = False
    """Whether the changelog `changes` is written."""
    watermark_delay: int = 0
    """Microseconds by which the watermark trails the newest event time."""
    idle_timeout: int | None = None
    """Microseconds without rows after which a source is idle and no longer holds back the watermark; None if never."""
    keep_state: bool = False
    """Whether the author accepts a state that was built from other rows of the same sources."""
    bootstrap: str | None = None
    """Table whose rows replace the source's history as initial load; None if the source's own history is loaded."""
    on_state_change: str = MIGRATE
    """Treatment of a state whose query was edited: `MIGRATE` it if possible, or `FAIL`."""
    on_new_metric: str = FROM_NOW
    """First rows of an aggregate that is added to an existing state: `FROM_NOW` on, or `BACKFILL` of the history."""
    columns: Mapping[str, str] | None = None
    """Columns of the query and their types; None if they are assumed to be the table's."""
    on_schema_change: str = APPEND_NEW
    """dbt's `on_schema_change`: treatment of a table whose columns differ from `columns`."""
    constraints: tuple[Constraint, ...] = ()
    """Constraints of the model's contract."""
    retention: Retention = Retention()
    """Limits for the model's table and for `changes`."""
    changelog_retention: int | None = CHANGELOG_RETENTION
    """Microseconds for which `changes` keeps each change; older changes are compacted to their net effect. None if never."""
    upstream: Mapping[str, str] | None = None
    """Names for dbt's `--select` of the nodes that the model reads, by relation in lower case; None if unknown."""
    seeds: frozenset[str] = frozenset()
    """Keys of `upstream` whose nodes are seeds."""
    catalog: Mapping[str, str] | None = field(default=None, compare=False)
    """The target's settings of the catalog of its table, from `owner.catalog_identity`; None before there is a session."""
    selector: str = ""
    """Name for dbt's `--select` that no other model has; empty if it is `name`."""
    trigger: str | None = None
    """Interval between micro-batches, as in '10 seconds'. None to ingest the available rows and stop."""

    def rebuild_command(self, table: str) -> str:
        """Returns the dbt command that rebuilds a table and all nodes downstream of it. For a table that dbt doesn't
        write, it is the command that rebuilds this model, and a hint that the table has to be rebuilt before."""
        relation = self._upstream_relation(table)
        if self.upstream is None or relation is not None:
            command = "build" if relation in self.seeds else "run"
            name = (self.upstream or {}).get(relation or "", last_part(table).removesuffix(CHANGES))
            return f"`dbt {command} --full-refresh --select {name}+`"
        return (
            f"`dbt run --full-refresh --select {self.unique_name}+`, after that table is rebuilt from scratch"
        )

    def is_seed(self, table: str) -> bool:
        """Returns whether a table that the model reads is a seed."""
        return self._upstream_relation(table) in self.seeds

    def is_node(self, table: str) -> bool:
        """Returns whether a table that the model reads is another node's table or changelog, not a source."""
        return self._upstream_relation(table) is not None

    def _upstream_relation(self, table: str) -> str | None:
        """Returns the key of `upstream` for a table or its changelog; None if it has no such key."""
        path = [part.lower() for part in parts(table)]
        path[-1] = path[-1].removesuffix(CHANGES)
        named = {relation: [part.lower() for part in parts(relation)] for relation in self.upstream or ()}
        return next((each for each, given in named.items() if path[-len(given) :] == given), None)

    @property
    def unique_name(self) -> str:
        """Name for dbt's `--select` that no other model of the project has."""
        return self.selector or self.name

    def without_source_limits(self) -> StreamModel:
        """Returns the model without limits on its sources, so that one micro-batch reads all rows."""
        unlimited = (replace(source, options=without_limits(source.options)) for source in self.sources)
        return replace(self, sources=tuple(unlimited))

    @property
    def changes(self) -> str:
        """Name of the changelog table."""
        return changelog_name(self.target)

    @property
    def key(self) -> str:
        """The model's name for files, different for any two models of a target."""
        return file_key(self.target)

    @property
    def checkpoint(self) -> str:
        """Path of Structured Streaming's checkpoint."""
        return f"{self.storage.checkpoints}/{self.key}"

    @property
    def lock(self) -> str:
        """Path of the file that is locked while a run writes the model."""
        return f"{self.storage.locks}/{self.key}.lock"

    @property
    def stop_request(self) -> str:
        """Path of the file that requests a run of the model to stop."""
        return f"{self.storage.locks}/{self.key}.stop"

    @property
    def progress(self) -> str:
        """Path of the file with the metrics of the last micro-batch."""
        return f"{self.storage.progress}/{self.key}.json"

    @property
    def health(self) -> str:
        """Path of the file with the model's health: whether a process runs it, and its last error."""
        return f"{self.storage.progress}/{self.key}.health.json"

    @property
    def cleaned(self) -> str:
        """Path of the list of source folders whose ingested files were removed. It is kept when the model is deleted."""
        return f"{self.storage.cleaned}/{self.key}.json"

    @property
    def savepoints(self) -> str:
        """Path of the folder of the model's savepoints."""
        return f"{self.storage.savepoints}/{self.key}"

    @property
    def restoring(self) -> str:
        """Path of the file that names the savepoint being restored, while a restore is not complete."""
        return f"{self.savepoints}/{RESTORING}"

    @property
    def is_deployment_version(self) -> bool:
        """Whether this is a deployment's new or previous version of another model."""
        return is_deployment_version(last_part(self.target))

    @property
    def keep_command(self) -> str:
        """The command that accepts a state that was built from other rows."""
        if self.is_deployment_version:
            return f"`dbt-stream --vars '{{keep_state: true}}' deploy await {self.name}`"
        return f"`dbt run --select {self.unique_name} --vars '{{keep_state: true}}'`"

    @property
    def attempt(self) -> str:
        """Path of the file that names the large micro-batch being ingested, and counts the attempts."""
        return f"{self.storage.progress}/{self.key}.attempt.json"

    @property
    def rebuild(self) -> str:
        """The command that rebuilds table and state."""
        if self.is_deployment_version:
            return f"`dbt-stream deploy init --full-refresh {self.name}`"
        return f"`dbt run --full-refresh --select {self.unique_name}`"

    @property
    def rebuild_advice(self) -> str:
        """A sentence with the commands that rebuild a model whose state can't be kept."""
        others = (
            f"; or next to the old version, which stays until the new one has caught up: {self.deploy}; or with a "
            f"table that has the rows so far: `dbt-stream state bootstrap {self.name} --from <table>`"
        )
        return f"To rebuild it: {self.rebuild}{'' if self.is_deployment_version else others}."

    @property
    def deploy(self) -> str:
        """The command that builds a new version of the model next to the current one."""
        return f"`dbt-stream deploy init {self.name}`"
