"""What a streaming model is to the running code: names, places and settings, no plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...environment.storage import Storage
from ...sources.limits import without_limits
from ...sources.unreadable import WARN
from .identifiers import last, parts, with_suffix
from .lookup_source import LookupSource

STATE, CHANGES = "__state", "__changes"
"""What is added to a table's name for those of its state and of its changes."""
NEW, PREVIOUS = "__deploy_", "__previous_"
"""What is added to it, before the id of a deployment, for a new version beside the model, and for the one before."""
_BESIDE = re.compile(rf"(?:{NEW}|{PREVIOUS})[0-9a-f]{{8}}\Z")
MIGRATE, FAIL = "migrate", "fail"
FROM_NOW, BACKFILL = "from_now", "backfill"
APPEND_NEW, SYNC, IGNORE = "append_new_columns", "sync_all_columns", "ignore"
CHANGELOG_RETENTION = 7 * 86_400_000_000
"""Microseconds: what Kafka keeps of a topic where nothing is said."""


@dataclass(frozen=True)
class Retention:
    """How many snapshots of a table are kept, and how large its files are made."""

    max_snapshot_age: int = 86_400_000_000
    """Microseconds. Whoever reads a table keeps the snapshot that was current when the reading began."""
    max_snapshots: int = 500
    """The newest so many are kept, where they aren't too old."""
    target_file_size: int = 64 << 20
    """Bytes."""


@dataclass(frozen=True)
class StreamSource:
    """Where the rows of a `StreamInput` come from."""

    relation: str
    """As `StreamInput.relation` names it."""
    location: str
    """A table's name or a folder; empty for Kafka."""
    format: str = "iceberg"
    """``iceberg`` for a table; ``kafka``; ``parquet``, ``json``, ``csv``, ``orc`` or ``text`` for a folder."""
    schema: str | None = None
    """Columns and types, as in CREATE TABLE, of a folder's files (None: found from them) or of what is in Kafka's
    messages (None: they stay as they are)."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's options for reading the format as a stream. They may hold secrets."""
    name: str = ""
    """What its author calls it, ``source.table``, for messages."""
    on_error: str = WARN
    """What becomes of records that can't be read: one of `unreadable.ON_ERROR`."""

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.format == "iceberg"

    @property
    def is_files(self) -> bool:
        """Whether it is a folder of files."""
        return self.format not in ("iceberg", "kafka")

    def option(self, name: str) -> str | None:
        """Returns one of its options, whatever the case of its name; None: it isn't among them.

        >>> source = StreamSource("s", "/in", options={"cleanSource": "DELETE"})
        >>> source.option("cleansource"), source.option("path")
        ('DELETE', None)
        """
        return {key.lower(): value for key, value in self.options.items()}.get(name.lower())

    def option_is(self, name: str, value: str) -> bool:
        """Returns whether one of its options is a value, whatever the case of both."""
        return (self.option(name) or "").lower() == value.lower()

    def holds(self, file: str) -> bool:
        """Whether a file lies in the folder, whichever way the two are written; of a pattern its plain beginning counts.

        >>> [StreamSource("s", path).holds("file:///d/in/a.csv") for path in ("/d/in", "/d/i", "/d/*/*.csv", "/d/x*")]
        [True, False, True, False]
        """
        plain, pattern, _ = re.split(r"([*?\[{]|$)", plain_path(self.location), maxsplit=1)
        return plain_path(file).startswith(plain if pattern else f"{plain}/")


def feed_of(table: str) -> str:
    """The name of the table with a table's changes."""
    return with_suffix(table, CHANGES)


def file_key(table: str) -> str:
    """A table's name in full as one for files: two tables of a target never share it.

    >>> file_key("lakehouse.shop.orders"), file_key("lakehouse.shop.`my orders`")
    ('lakehouse.shop.orders', 'lakehouse.shop.my_orders-b42515ff')
    """
    plain = ".".join(parts(table))
    safe = re.sub(r"[^\w.-]", "_", plain)
    if safe == plain and plain.count(".") == len(parts(table)) - 1:
        return safe
    # Names that differ only in what a file's can't have.
    return f"{safe}-{hashlib.sha256(table.encode()).hexdigest()[:8]}"


def is_beside(table: str) -> bool:
    """Whether a table, by its name or as files are called, is one of a version beside a model.

    >>> is_beside("shop.orders__previous_0a1b2c3d"), is_beside("shop.orders__deploy")
    (True, False)
    """
    return _BESIDE.search(table) is not None


def plain_path(location: str) -> str:
    """A folder's or a file's location, the same whichever way it is written.

    >>> plain_path("file:///data/in/"), plain_path("/data/in"), plain_path("s3://data/in")
    ('/data/in', '/data/in', 's3://data/in')
    """
    return re.sub(r"^file:/+", "/", location).rstrip("/")


@dataclass(frozen=True)
class Constraint:
    """What must hold of each row."""

    broken: str
    """SQL over the table's columns: true of a row that breaks it."""
    says: str
    """What it asks, as a sentence without its end."""


@dataclass(frozen=True)
class StreamModel:
    """A model that is kept up to date from streams."""

    name: str
    """What its author calls it: for messages, `--select` and Spark's query name."""
    target: str
    """Its table. The materialization makes it; rows are appended to it here."""
    state: str
    """Its state table, an Iceberg table made here."""
    storage: Storage
    """Where checkpoint, lock and progress are kept."""
    sources: tuple[StreamSource, ...]
    """One for each `StreamInput`."""
    lookups: tuple[LookupSource, ...] = ()
    """The tables outside that its joins ask for keys."""
    changelog: bool = False
    """Whether its changes are kept in `changes`."""
    watermark_delay: int = 0
    """Microseconds that the watermark stays behind the newest event time."""
    idle_timeout: int | None = None
    """Microseconds without rows after which a stream doesn't hold the watermark; None: it always does."""
    keep_state: bool = False
    """Whether a state that was made for other rows of the same sources is kept: their author says that it may be."""
    bootstrap: str | None = None
    """A table whose rows its stream begins with, in the place of those that its source has had so far; None: those."""
    on_state_change: str = MIGRATE
    """Whether a state goes on with an edited query where it can: `MIGRATE`, or `FAIL`."""
    on_new_metric: str = FROM_NOW
    """What an aggregate has that comes to a state which goes on: `FROM_NOW`, or `BACKFILL`, the history of its sources."""
    columns: Mapping[str, str] | None = None
    """The columns of its query and their types; None: those of its table are taken for granted."""
    on_schema_change: str = APPEND_NEW
    """What becomes of the table where `columns` are others: as dbt has it for incremental models."""
    constraints: tuple[Constraint, ...] = ()
    """What its contract asks of each row."""
    retention: Retention = Retention()
    """What is kept of its table and of `changes`."""
    changelog_retention: int | None = CHANGELOG_RETENTION
    """Microseconds for which `changes` has each change; older ones it has by their net effect. None: each one for ever."""
    upstream: Mapping[str, str] | None = None
    """By the name of their tables, in lower case, what dbt's `--select` calls the nodes that it reads; None: unknown."""
    seeds: frozenset[str] = frozenset()
    """Those of `upstream` that are seeds, by the same names."""
    catalog: Mapping[str, str] | None = field(default=None, compare=False)
    """What the target's settings say of the catalog of its table, as of `owner.catalog_of`; None: unknown before a session
    is there."""
    trigger: str | None = None
    """None: take all that is there, then stop. Else an interval between micro-batches, as in
    '10 seconds'; the stream goes on until it is stopped."""

    def make_anew(self, table: str) -> str:
        """Returns the command that has dbt make a table from scratch, and all that reads it. Where dbt doesn't write it, it
        is the command for what reads it, and who has to do something before."""
        name = last(table).removesuffix(CHANGES)
        if self.upstream is None or name.lower() in self.upstream:
            command = "build" if self.is_seed(table) else "run"
            return f"`dbt {command} --full-refresh --select {(self.upstream or {}).get(name.lower(), name)}+`"
        return f"`dbt run --full-refresh --select {self.name}+`, once who writes that table has made it from scratch"

    def is_seed(self, table: str) -> bool:
        """Returns whether one of the tables that it reads is a seed's."""
        return last(table).lower() in self.seeds

    def at_once(self) -> StreamModel:
        """Returns the model with no limit on its sources: all that they hold is one micro-batch."""
        unlimited = (replace(source, options=without_limits(source.options)) for source in self.sources)
        return replace(self, sources=tuple(unlimited))

    @property
    def changes(self) -> str:
        """The table of its changes."""
        return feed_of(self.target)

    @property
    def key(self) -> str:
        """The model's name for files: two models of a target never share it."""
        return file_key(self.target)

    @property
    def checkpoint(self) -> str:
        """Structured Streaming's record of what was read."""
        return f"{self.storage.checkpoints}/{self.key}"

    @property
    def lock(self) -> str:
        """The file that is locked while the model is written."""
        return f"{self.storage.locks}/{self.key}.lock"

    @property
    def stop_request(self) -> str:
        """The file that asks a run of the model to end."""
        return f"{self.storage.locks}/{self.key}.stop"

    @property
    def progress(self) -> str:
        """The file with the last micro-batch's figures."""
        return f"{self.storage.progress}/{self.key}.json"

    @property
    def health(self) -> str:
        """The file that says whether a process looks after the model, and what it failed of."""
        return f"{self.storage.progress}/{self.key}.health.json"

    @property
    def cleaned(self) -> str:
        """The file that says of which folders files are gone that it has read. It stays when the model is forgotten."""
        return f"{self.storage.cleaned}/{self.key}.json"

    @property
    def savepoints(self) -> str:
        """The folder of its savepoints."""
        return f"{self.storage.savepoints}/{self.key}"

    @property
    def restoring(self) -> str:
        """The file that says which savepoint is being restored, from before the first change until after the last."""
        return f"{self.savepoints}/.restoring"

    @property
    def is_beside(self) -> bool:
        """Whether it is a version of a model that lies beside the one of its name."""
        return is_beside(last(self.target))

    @property
    def keep(self) -> str:
        """The command that goes on with the state of a query whose rows were others."""
        if self.is_beside:
            return f"`dbt-stream --vars '{{keep_state: true}}' deploy await {self.name}`"
        return f"`dbt run --select {self.name} --vars '{{keep_state: true}}'`"

    @property
    def attempt(self) -> str:
        """The file that says which large micro-batch is being taken in."""
        return f"{self.storage.progress}/{self.key}.attempt.json"

    @property
    def rebuild(self) -> str:
        """The command that builds table and state anew."""
        if self.is_beside:
            return f"`dbt-stream deploy init --full-refresh {self.name}`"
        return f"`dbt run --full-refresh --select {self.name}`"

    @property
    def build_anew(self) -> str:
        """How to have a query that the state isn't of, as a sentence."""
        others = (
            f"; or beside the old version, which stays until the new one has caught up: {self.deploy}; or with a table that "
            f"has the rows so far: `dbt-stream state bootstrap {self.name} --from <table>`"
        )
        return f"To build it anew: {self.rebuild}{'' if self.is_beside else others}."

    @property
    def deploy(self) -> str:
        """The command that builds a new version of the model beside it."""
        return f"`dbt-stream deploy init {self.name}`"
