"""dbt's adapter: extends dbt-spark with streaming models, with Iceberg as the default format and its own Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.impl import AdapterTrackingRelationInfo
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.macros import MacroResolverProtocol
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.__version__ import version
from dbt.adapters.spark_streaming.connections import SparkStreamingConnectionManager
from dbt.adapters.spark_streaming.environment import Environment, get_environment, spark_errors
from dbt.adapters.spark_streaming.methods import catalog, seeds
from dbt.adapters.spark_streaming.methods.column import SparkStreamingColumn, columns_from_schema
from dbt.adapters.spark_streaming.methods.incremental import BatchMethods
from dbt.adapters.spark_streaming.methods.operations import OperationMethods
from dbt.adapters.spark_streaming.methods.python_models import run_python_model
from dbt.adapters.spark_streaming.methods.rewrites import RewriteMethods
from dbt.adapters.spark_streaming.methods.streams import StreamingMethods
from dbt.adapters.spark_streaming.project import contract, materializations, name_clashes, table_formats
from dbt.adapters.spark_streaming.relation import SparkStreamingRelation
from dbt.adapters.spark_streaming.sources import profile_connections
from dbt.adapters.spark_streaming.sources import stream_source as declared_sources
from dbt.adapters.spark_streaming.sources.unreadable import DROP, KEEP_RAW, WARN
from dbt.adapters.spark_streaming.stream.common import lookup_source
from dbt.adapters.spark_streaming.util.lazy_import import import_lazily
from dbt.adapters.spark_streaming.util.metadata_columns import METADATA_COLUMNS, check_column_names
from dbt.adapters.spark_streaming.util.quoting import (
    find_name,
    is_plain,
    quote,
    quote_configured,
    quote_name,
    text_literal,
)
from dbt.adapters.spark_streaming.util.redaction import without_secrets

from .stream.common.identifiers import parts
from .stream.common.model import is_state_or_changelog_name

if TYPE_CHECKING:
    import agate
    from pyspark.sql.types import StructType

    from dbt.adapters.spark_streaming.project import model_configs, stream_node, streaming
    from dbt.adapters.spark_streaming.query.normalize import model_text
    from dbt.adapters.spark_streaming.stream.iceberg import maintenance, owner, ownership
    from dbt.adapters.spark_streaming.stream.iceberg import table as iceberg
    from dbt.adapters.spark_streaming.stream.iceberg.table import IcebergTable
    from dbt.adapters.spark_streaming.stream.lifecycle import batch_tables
    from dbt.adapters.spark_streaming.stream.lifecycle.batch_tables import Before
    from dbt.adapters.spark_streaming.stream.progress import report, unreadable_rows
else:
    import_lazily(
        globals(),
        {
            "project": ["model_configs", "stream_node", "streaming"],
            "query.normalize": ["model_text"],
            "stream.iceberg": ["maintenance", "owner", "ownership", "table as iceberg"],
            "stream.lifecycle": ["batch_tables"],
            "stream.progress": ["report", "unreadable_rows"],
        },
    )

logger = AdapterLogger("Spark")

FULL = CapabilitySupport(support=Support.Full)
_BATCH = ("table", "incremental", "snapshot", "seed", "view")
"""Materializations of batch nodes, which may replace the table of a streaming model."""
_READING = ("table", "incremental", "snapshot")
"""Materializations of batch nodes that read their sources when they are built."""
_RESULT_OF_UNREADABLE = {
    WARN: "each such value is NULL",
    DROP: "these rows are left out",
    KEEP_RAW: "their records are kept as text",
}
"""`on_error` of a source → the end of a warning of its unreadable values."""
_TEST = "test"
"""Materialization of a test, which has a relation if its failures are stored."""


@dataclass
class SparkStreamingConfig(SparkConfig):
    """The configs of batch models that this adapter adds."""

    file_format: str = "iceberg"
    enum_distinct: bool | None = None
    split_distinct: int | None = None
    split_topn: int | None = None


class SparkStreamingAdapter(StreamingMethods, BatchMethods, RewriteMethods, OperationMethods, SparkAdapter):
    """dbt's adapter. Its mixins have the methods that macros call."""

    Relation: TypeAlias = SparkStreamingRelation
    Column: TypeAlias = SparkStreamingColumn
    ConnectionManager: TypeAlias = SparkStreamingConnectionManager
    AdapterSpecificConfigs: TypeAlias = SparkStreamingConfig

    _capabilities = CapabilityDict(
        {
            Capability.SchemaMetadataByRelations: FULL,
            Capability.GetCatalogForSingleRelation: FULL,
            Capability.TableLastModifiedMetadata: FULL,
            Capability.TableLastModifiedMetadataBatch: FULL,
            Capability.MicrobatchConcurrency: FULL,
        }
    )

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # `dbt debug` passes no project; it runs in the project's folder.
        root = getattr(config, "project_root", None) or os.getcwd()
        config.credentials.resolve_paths(root)
        profile_connections.use_connections(config.credentials.connections)
        declared_sources.set_project_root(root)

    @property
    def environment(self) -> Environment:
        """Where Spark runs."""
        return get_environment(self.config.credentials)

    # --- dbt's hooks and capabilities ------------------------------------------------------

    def debug_query(self) -> None:
        """Prints the versions, the catalog and the storage root for `dbt debug`.

        Raises:
            DbtRuntimeError: Spark doesn't answer, or the storage root can't be written.
        """
        from dbt.events.types import DebugCmdOut
        from dbt_common.events.functions import fire_event

        self.execute("select 1 as id")
        environment = self.environment
        for name, value in (*environment.versions().items(), ("Catalog", environment.describe_catalog())):
            fire_event(DebugCmdOut(msg=f"  {name}: {value}"))
        root = without_secrets(environment.storage.root)
        if problem := environment.storage.unwritable_reason():
            raise DbtRuntimeError(
                f"The storage root {root} can't be written: {without_secrets(problem)}. Name another place as "
                "'storage_root' in the profile."
            )
        fire_event(DebugCmdOut(msg=f"  Storage root: {root} (can be written)"))

    def valid_incremental_strategies(self) -> list[str]:
        return list(model_configs.STRATEGIES)

    @classmethod
    def get_adapter_run_info(cls, config: RelationConfig) -> AdapterTrackingRelationInfo:
        """Returns the adapter's name and version for dbt's usage statistics. dbt's default derives the module's name from
        the class's, which is wrong here."""
        return AdapterTrackingRelationInfo(  # type: ignore[abstract]
            adapter_name="spark_streaming",
            base_adapter_version="",
            adapter_version=version,
            model_adapter_details=cls._get_adapter_specific_run_info(config),
        )

    def pre_model_hook(self, config: Any) -> Before | None:
        """Checks a node and sets its default configs before it is built. Returns its existing table for `post_model_hook`.

        dbt-spark's macros read ``file_format`` in a dozen places with different defaults (parquet, delta, none). Setting it
        here gives each place the same value. In dbt-spark a ``unique_key`` without a strategy appends, which makes
        duplicates; here the default is merge.
        """
        node_config = getattr(getattr(config, "model", None), "config", None)
        if node_config is None:
            return None
        self.check_rewrite_configs(config.model)
        self._check_replaceable(config.model)
        self._check_grants(config.model)
        self._check_table_configs(config.model)
        if node_config.get("file_format") is None:
            node_config["file_format"] = self.config.credentials.file_format
        self._check_format(config.model)
        if (
            node_config.get("materialized") == "incremental"
            and node_config.get("unique_key")
            and node_config.get("incremental_strategy") is None
        ):
            node_config["incremental_strategy"] = "merge"
        if node_config.get("materialized") == "snapshot":
            self._quote_snapshot_columns(config.model)
        return self._existing_table(config.model)

    def _check_table_configs(self, node: Any) -> None:
        kind = node.config.get("materialized")
        if kind != "view" and kind in (*_BATCH, *model_configs.MATERIALIZATIONS):
            with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(node.to_dict()):
                model_configs.check_table_configs(node.config)

    def _check_format(self, node: Any) -> None:
        kind, name = node.config.get("materialized"), getattr(node, "relation_name", None)
        if not name or kind not in (*_BATCH, *model_configs.MATERIALIZATIONS):
            return
        catalog, *_, schema, _ = parts(stream_node.name_with_catalog(name, self.environment))
        settings = self.environment.session().conf

        def setting(key: str) -> str | None:
            return settings.get(key, None)

        with streaming.raising_dbt_errors(), stream_node.errors_with_model_name(node.to_dict()):
            if kind == "view":
                table_formats.check_outlives_process(catalog, setting)
            else:
                table_formats.check_format(node.config["file_format"], kind, catalog, schema, setting)

    def _quote_snapshot_columns(self, node: Any) -> None:
        """Quotes the columns in a snapshot's configs, which dbt inserts into SQL unchanged. A value that isn't a column of
        the snapshot's query is an expression, and stays as it is."""
        configs = {name: node.config.get(name) for name in ("unique_key", "updated_at", "check_cols")}
        lists = {name: [value] if isinstance(value, str) else value for name, value in configs.items()}
        to_quote = {
            name: values
            for name, values in lists.items()
            if isinstance(values, list) and any(not is_plain(str(value)) for value in values)
        }
        if not to_quote:
            return
        try:
            columns = [column.name for column in self.query_columns(node.compiled_code)]
        except DbtRuntimeError as problem:
            # A hook may create the tables it reads. dbt reports other errors when it runs the query.
            logger.debug(str(problem))
            return
        for name, values in to_quote.items():
            found = [(value, find_name(str(value), columns)) for value in values]
            quoted = [value if column is None else quote(column) for value, column in found]
            node.config[name] = quoted[0] if isinstance(configs[name], str) else quoted

    def _existing_table(self, node: Any) -> Before | None:
        """Returns the existing table with the name of a batch node, or None if it has none or can't be inspected."""
        kind = node.config.get("materialized")
        if kind not in (*_BATCH, _TEST) or not node.relation_name or self.environment.is_remote:
            return None
        replaces = kind in ("table", "view") or (
            kind in ("incremental", "seed") and self._is_full_refresh(node)
        )
        with streaming.raising_dbt_errors():
            place = stream_node.model_without_configs(node.to_dict(), self.environment)
            return batch_tables.existing_table(self.environment.session(), place, replaces)

    def _is_full_refresh(self, node: Any) -> bool:
        configured = node.config.get("full_refresh")
        return bool(getattr(self.config.args, "FULL_REFRESH", False) if configured is None else configured)

    def post_model_hook(self, config: Any, context: Before | None) -> None:
        """Marks the table of a batch node as made by this package, expires its old snapshots, and warns of unreadable
        values in its sources."""
        self._warn_of_unreadable_values(getattr(config, "model", None))
        if context is None:
            return
        name, table = context.model.name, None
        with _errors_as_warnings(
            f"Node {name}: its table is built, but can't be marked as made by this package, or the files of a stream of its "
            "name can't be removed ({}). Its old snapshots and files are kept until it is built with --full-refresh."
        ):
            table = batch_tables.mark_made_table(self.environment.session(), context)
        if table is not None:
            with _errors_as_warnings(f"Node {name}: old snapshots of its table can't be expired ({{}})."):
                maintenance.expire_old_snapshots(self.environment.storage, table)

    def _warn_of_unreadable_values(self, node: Any) -> None:
        """Warns of unreadable values in the sources that a node has read in batch. A stream counts its own."""
        kind = getattr(getattr(node, "config", None), "materialized", None)
        is_stream = kind in model_configs.MATERIALIZATIONS
        if not (is_stream or kind in _READING) or node.language != "sql":
            return
        # Most projects have no such sources, and then Spark needn't find out what a node reads.
        if (
            getattr(self.config.args, "EMPTY", False)
            or not self.environment.declared.may_have_uncounted_values
        ):
            return
        with _errors_as_warnings(
            f"Node {node.name}: the unreadable values of its sources can't be counted ({{}})."
        ):
            query = node.compiled_code or ""
            streams = model_text.stream_relations(query) if is_stream else ()
            for source, columns in self.environment.declared.count_unreadable_values(query, streams):
                counts = unreadable_rows.describe({source.name: columns})
                logger.warning(f"Node {node.name}: {counts}; {_RESULT_OF_UNREADABLE[source.on_error]}.")

    @available.parse_none
    def drop_replaced(self, relation: SparkStreamingRelation) -> None:
        """Drops the table that a node replaces.

        Its files are deleted, too, if this package made the table and all of its files are in its folder.

        Raises:
            DbtRuntimeError: a DROP in this catalog would delete files that have to stay.
        """
        table, name = None, ""
        if relation.is_table and relation.is_iceberg and not self.environment.is_remote:
            name = stream_node.name_with_catalog(relation.render(), self.environment)
            table = iceberg.find_table(self.environment.session(), name)
        may_delete = (
            table is not None
            and batch_tables.was_made_by_package(table, name)
            and ownership.may_delete_files(table)
        )
        if table is not None:
            with streaming.raising_dbt_errors():
                ownership.check_drop_is_safe(self.environment.session(), table, may_delete)
        if not may_delete:
            self.drop_relation(relation)
            return
        self.cache_dropped(relation)
        self.execute_macro("drop_with_files", kwargs={"relation": relation})

    def _check_replaceable(self, node: Any) -> None:
        """Raises if a node would replace the state or the changelog of a streaming model."""
        relation = getattr(node, "relation_name", None)
        if relation and is_state_or_changelog_name(relation):
            with streaming.raising_dbt_errors():
                name = stream_node.name_with_catalog(relation, self.environment)
                ownership.check_replaceable(self.environment.session(), node.name, name)

    def _check_grants(self, node: Any) -> None:
        """Raises if a node has the config `grants`, and the session's Spark can't parse such statements."""
        if not node.config.get("grants") or self.environment.is_remote:
            return
        if not spark_errors.can_parse(self.environment.session(), "show grants on a_table"):
            raise DbtRuntimeError(
                f"Node {node.name}: its config 'grants' asks for GRANT, a statement that Spark doesn't have in this "
                "session. Nothing was built. Leave 'grants' out, and grant access where the catalog or the storage keeps "
                "its permissions; or load an extension of Spark that adds GRANT (spark.sql.extensions)."
            )

    def set_macro_resolver(self, macro_resolver: MacroResolverProtocol) -> None:
        """Registers the declared sources of dbt's manifest, instead of those of an earlier manifest.

        Raises:
            DbtRuntimeError: a model's materialization doesn't exist, or a node has the name of a streaming model's state
                or changelog.
        """
        super().set_macro_resolver(macro_resolver)
        nodes, macros = (getattr(macro_resolver, name, {}).values() for name in ("nodes", "macros"))
        materializations.check_materializations(nodes, macros)
        name_clashes.check_name_clashes(nodes)
        declared_sources.forget_sources()
        lookup_source.forget_lookup_sources()
        for source in getattr(macro_resolver, "sources", {}).values():
            try:
                relation = self.Relation.create_from(_NoQuoting(), source)
                if relation.source_table:
                    # A partially parsed manifest may have a path from when the project was in another folder.
                    source.relation_name = relation.source_table
            except DbtRuntimeError as problem:
                # Only the nodes that read the source fail.
                logger.debug(str(problem))

    # --- relations and schemas ----------------------------------------------------------------

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Returns the tables and views of a schema, without temporary views.

        An Iceberg catalog needs two statements for any number of tables; in other catalogs the format of each table is
        looked up.
        """
        if not self.environment.has_only_iceberg(parts(str(schema_relation.schema))):
            found = super().list_relations_without_caching(schema_relation)
            # Spark lists names without their catalog.
            path = {"schema": schema_relation.schema}
            return [relation.incorporate(path=path) for relation in found if relation.schema]
        schema = schema_relation.without_identifier().render()
        views = self._relation_names(f"show views in {schema}")
        tables = [name for name in self._relation_names(f"show tables in {schema}") if name not in set(views)]
        return [
            # `dbt_created` makes dbt ignore the case of the name, as Spark does.
            self.Relation.create(schema=schema_relation.schema, identifier=name, type=kind, dbt_created=True)
            for kind, names in ((RelationType.Table, tables), (RelationType.View, views))
            for name in names
        ]

    def get_relation(self, database: str, schema: str, identifier: str) -> BaseRelation | None:
        """Returns the relation of that name, or None.

        In a case-insensitive catalog a name that differs only in case is the same relation; in others it isn't.
        """
        found = super().get_relation(database, schema, identifier)
        if found is None or found.identifier == identifier:
            return found
        requested = self.Relation.create(schema=schema, identifier=identifier)
        for relation in self.list_relations_without_caching(requested):
            if relation.identifier == identifier:
                return relation
        name = stream_node.name_with_catalog(requested.render(), self.environment)
        return found if self.environment.session().catalog.tableExists(name) else None

    def _build_spark_relation_list(self, row_list: Any, relation_info_func: Any) -> list[BaseRelation]:
        """Overrides dbt-spark's method, which searches a table's whole description for keywords, comments included."""

        def short_info(row: Any) -> tuple[str, str, str]:
            schema, name, information = relation_info_func(row)
            return schema, name, catalog.short_relation_info(information)

        return super()._build_spark_relation_list(row_list, short_info)

    def _relation_names(self, sql: str) -> list[str]:
        try:
            _, rows = self.execute(sql, fetch=True)
        except DbtRuntimeError as problem:
            if _is_missing_schema_error(problem):
                return []
            raise
        return [name for _, name, temporary in rows if not temporary]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkStreamingColumn]:
        """Returns the columns of a relation, or an empty list if it doesn't exist.

        If a source can't be read, its declared columns are returned: unit tests need no files, broker or connector.
        """
        try:
            schema = self._schema_of(relation)
        except DbtRuntimeError as problem:
            if _is_missing_relation_error(problem):
                return []
            source = declared_sources.stream_source(getattr(relation, "source_table", ""))
            if source is None or source.columns is None:
                raise
            schema = self.environment.session().createDataFrame([], source.columns).schema
        return [
            column for column in columns_from_schema(schema) if column.name not in self.HUDI_METADATA_COLUMNS
        ]

    def _schema_of(self, relation: BaseRelation) -> StructType:
        """Returns the schema of a relation. DESCRIBE isn't used, as a column name with a leading # looks like
        its headings."""
        handle = self.connections.get_thread_connection().handle
        handle.cursor().execute(f"select * from {relation.render()}")
        schema: StructType = handle.schema
        return schema

    def list_schemas(self, database: str) -> list[str]:
        """Returns the schemas of the models' catalog; empty if it is a folder (type: hadoop) that doesn't exist yet."""
        try:
            return super().list_schemas(database)
        except DbtRuntimeError as problem:
            if _is_missing_schema_error(problem):
                return []
            raise

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drops a schema and all relations in it, as Iceberg's catalogs only drop an empty schema."""
        for child in self.list_relations_without_caching(relation):
            self.drop_relation(child)
        super().drop_schema(relation)

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        """Returns the entry of a relation in `dbt docs`, or None if it doesn't exist."""
        described = self._describe(relation)
        return catalog.catalog_entry(relation, described, self._progress_of(relation)) if described else None

    def _get_one_catalog(self, information_schema: Any, schemas: set[str], used_schemas: Any) -> agate.Table:
        relations = [
            relation
            for schema in schemas
            for relation in self.list_relations(information_schema.database, schema)
        ]
        return self._catalog_table(relations)

    def _get_one_catalog_by_relations(
        self, information_schema: Any, relations: Iterable[BaseRelation], used_schemas: Any
    ) -> agate.Table:
        return self._catalog_table(relations)

    def _catalog_table(self, relations: Iterable[BaseRelation]) -> agate.Table:
        import agate
        from dbt_common.clients.agate_helper import DEFAULT_TYPE_TESTER

        rows: list[dict[str, Any]] = []
        for relation in relations:
            try:
                described = self._describe(relation)
            except DbtRuntimeError as problem:
                if not getattr(relation, "source_table", ""):
                    raise
                # Files or topics may be missing. That doesn't keep the models from being documented.
                logger.warning(f"dbt docs has no columns of {relation.identifier}: {problem.msg}")
                continue
            if described:
                rows += catalog.catalog_rows(relation, described, self._progress_of(relation))
        return agate.Table.from_object(rows, column_types=DEFAULT_TYPE_TESTER)

    def _progress_of(self, relation: BaseRelation) -> Mapping[str, Any] | None:
        """Returns the last progress of the streaming model that has a table; None for another relation."""
        node = {"name": relation.identifier, "relation_name": relation.render()}
        model = stream_node.model_without_configs(node, self.environment)
        return None if owner.other_catalog_problem(model) else report.read_progress(model)

    def _describe(self, relation: BaseRelation) -> catalog.Description | None:
        try:
            _, table = self.execute(f"describe extended {relation.render()}", fetch=True)
        except DbtRuntimeError as problem:
            if _is_missing_relation_error(problem):
                return None
            raise
        rows = [tuple(row) for row in table]
        try:
            schema = self._schema_of(relation)
        except DbtRuntimeError as problem:
            # A view over a dropped relation can be described, but has no schema.
            logger.debug(str(problem))
            return catalog.Description.from_rows(rows)
        return catalog.Description.from_rows(rows, columns_from_schema(schema))

    @available
    def described_comments(self, relation: BaseRelation) -> dict[str, str]:
        """Returns the comments of a relation's columns by name, and its own comment under an empty name."""
        described = self._describe(relation)
        if described is None:
            return {}
        comments = {column.name: column.comment or "" for column in described.columns}
        return {"": described.comment or "", **comments}

    # --- names and texts in SQL ---------------------------------------------------------------

    def quote(self, identifier: str) -> str:  # type: ignore[override]
        """Returns a name as a quoted identifier. dbt passes None for a relation without a database."""
        return quote(str(identifier))

    def quote_seed_column(self, column: str, quote_config: bool | None) -> str:
        """Returns a seed's column, always quoted: quotes don't change a name's meaning in Spark."""
        return quote(column)

    @available
    def quote_name(self, name: str, reserved: bool = False) -> str:
        """Returns a user's name, quoted or not, as an identifier."""
        return quote_name(name, reserved)

    @available.parse_none
    def check_column_names(
        self,
        relation: SparkStreamingRelation,
        columns: Sequence[str],
        model: Mapping[str, Any] | None = None,
        config: Any = None,
    ) -> None:
        """Raises if a table has a column with the name of one of Iceberg's metadata columns.

        Args:
            config: the config of a table that doesn't exist yet.
        """
        is_iceberg = relation.is_iceberg if config is None else _is_iceberg(config)
        if is_iceberg:
            check_column_names(_owner_name(model, f"Table {relation}"), map(str, columns))

    @available.parse_none
    def check_query_column_names(self, config: Any, sql: str, model: Mapping[str, Any] | None = None) -> None:
        """Raises if a query has a column with the name of one of Iceberg's metadata columns."""
        text = sql.lower()
        # A query without a '*' and without such a name has no such column.
        if not _is_iceberg(config) or (
            "*" not in text and not any(name in text for name in METADATA_COLUMNS)
        ):
            return
        handle = self.connections.get_thread_connection().handle
        handle.execute(sql)
        check_column_names(_owner_name(model, "The query"), (name for name, *_ in handle.description))

    @available
    def quote_configured(self, text: object) -> str:
        """Returns a config's column as an identifier, or its expression over columns unchanged (`partition_by`, …).

        Raises:
            DbtRuntimeError: the config isn't a text, or is empty.
        """
        if not isinstance(text, str) or not text.strip():
            raise DbtRuntimeError(
                f"A config such as 'partition_by' or 'clustered_by' names the column {text!r}. Name a column of the query, "
                "or leave it out."
            )
        return quote_configured(text)

    @available
    def text_literal(self, value: object) -> str:
        """Returns a value as a SQL string literal."""
        return text_literal(value)

    @available.parse(lambda *arguments, **named: "")
    def contract_case_branches(self, model: Mapping[str, Any]) -> str:
        """Returns branches of a CASE that raise an error for a row that violates a constraint of the model's contract."""
        end = f", says the contract of {model['name']}."
        return " ".join(
            f"when {each.broken} then raise_error({text_literal(each.says + end)})"
            for each in contract.enforced_constraints(model)
        )

    # --- seeds -----------------------------------------------------------------------------------

    @available
    def stage_seed(self, relation: BaseRelation, table: agate.Table) -> str:
        """Creates a temporary view of a seed's rows, and returns its name."""
        view = self.quote(f"{relation.schema}__{relation.identifier}__seed")
        seeds.create_staging_view(table, view, self.environment.session())
        return view

    @available
    def record_seed_definition(self, relation: BaseRelation, definition: str) -> None:
        """Records a seed's definition in the properties of its new table."""
        if (table := self._seed_table(relation)) is not None:
            seeds.record_definition(table, definition)

    @available
    def is_seed_defined_as(self, relation: BaseRelation, definition: str, columns: Sequence[str]) -> bool:
        """Returns whether a seed's table was created from this definition, and EXCEPT can compare its rows."""
        table = self._seed_table(relation)
        return table is not None and seeds.is_defined_as(table, definition, columns)

    def _seed_table(self, relation: BaseRelation) -> IcebergTable | None:
        if self.environment.is_remote:
            return None
        return iceberg.find_table(
            self.environment.session(), stream_node.name_with_catalog(relation.render(), self.environment)
        )

    # --- Python models --------------------------------------------------------------------------

    def submit_python_job(self, parsed_model: dict[str, Any], compiled_code: str) -> AdapterResponse:
        """Runs a Python model in this process, in the environment's session."""
        handle = self.connections.get_thread_connection().handle
        with handle.raising_dbt_errors():
            handle.prepare_thread(compiled_code)
            run_python_model(parsed_model["name"], compiled_code, self.environment.session())
        return AdapterResponse(_message="OK")


@contextmanager
def _errors_as_warnings(sentence: str) -> Iterator[None]:
    """Logs an exception as a warning instead of raising it, because the node is built."""
    try:
        yield
    except Exception as problem:
        logger.warning(sentence.format(problem))


def _owner_name(node: Mapping[str, Any] | None, otherwise: str) -> str:
    """Returns a node's kind and name for the beginning of a message."""
    return f"{str(node['resource_type']).capitalize()} {node['name']}" if node else otherwise


def _is_iceberg(config: Any) -> bool:
    return bool((config.get("file_format") or "iceberg") == "iceberg")


class _NoQuoting:
    """An empty quoting config: dbt resolves sources without the project's quoting."""

    quoting: dict[str, Any] = {}  # noqa: RUF012


def _is_missing_relation_error(problem: DbtRuntimeError) -> bool:
    return any(word in str(problem) for word in ("TABLE_OR_VIEW_NOT_FOUND", "NoSuchTable"))


def _is_missing_schema_error(problem: DbtRuntimeError) -> bool:
    words = ("SCHEMA_NOT_FOUND", "Namespace does not exist", "NoSuchNamespace", "does not exist")
    return any(word in str(problem) for word in words)
