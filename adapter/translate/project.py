"""Translates a script of Flink SQL to a dbt project, and lists what it can't translate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from ..query.sql import intervals as lengths
from ..query.sql.dialect import DIALECT
from . import connectors, files, intervals, planning, sinks
from .errors import Note, Notes, Untranslatable
from .functions import ColumnTypes
from .queries import QueryWriter, TranslatedQuery, last_row_view
from .relations import NamedRelation, Versions, column_names, ctes_of
from .script import (
    Column,
    CreateTable,
    Function,
    Insert,
    Other,
    Setting,
    Statement,
    View,
    is_processing_time,
    parse_statements,
    processing_time_note,
    relation_name,
)

_TTL = "table.exec.state.ttl"
_IDLE = "table.exec.source.idle-timeout"
_MINI_BATCH = (
    "table.exec.mini-batch.enabled",
    "table.exec.mini-batch.allow-latency",
    "table.exec.mini-batch.size",
)
_WITHOUT_ROWS = "SHOW USE DESCRIBE DESC EXPLAIN DROP ADD REMOVE LOAD UNLOAD ANALYZE CREATE QUIT".split()
_READ_SETTINGS = (_TTL, _IDLE, *_MINI_BATCH)


@dataclass
class Translation:
    """A project that a script was translated to."""

    files: dict[str, str]
    """Texts by path."""
    notes: list[Note]


def translate(text: str, name: str) -> Translation:
    """Translates a script of Flink SQL."""
    return _Translator(list(parse_statements(text)), name).translate()


@dataclass
class _Translator:
    """Translates a script, statement by statement."""

    script: list[Statement]
    name: str
    notes: Notes = field(default_factory=Notes)
    tables: dict[str, CreateTable] = field(default_factory=dict)
    relations: dict[str, NamedRelation] = field(default_factory=dict)
    models: dict[str, files.Model] = field(default_factory=dict)
    seeds: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    inserts: dict[str, list[tuple[Insert, Statement]]] = field(default_factory=dict)
    unread: dict[str, list[Statement]] = field(default_factory=dict)
    """The statements that can't be parsed, by the table or view that they would fill or create."""
    sources: dict[str, None] = field(default_factory=dict)
    looked_up: set[str] = field(default_factory=set)

    @property
    def has_use_statement(self) -> bool:
        """Whether names of tables may lack the database, which a USE names."""
        others = (each.what for each in self.script)
        return any(isinstance(each, Other) and each.words.upper().startswith("USE") for each in others)

    def translate(self) -> Translation:
        self._collect_declarations()
        queries = 0
        for statement in self.script:
            what = statement.what
            if isinstance(what, Setting):
                self._add_setting(what, statement.line)
            elif isinstance(what, View):
                self._add_view(what, statement)
            elif isinstance(what, exp.Query):
                queries += 1
                self._add_query_model(f"query_{queries}", [statement], lambda query=what: query)
            elif isinstance(what, Insert | CreateTable) and self._is_first_insert(what.name, statement):
                self._add_sink(what.name)
            elif isinstance(what, Function):
                self.notes.add(
                    statement.line, f"the function {what.name} is your own; models that call it are disabled."
                )
            elif isinstance(what, Other):
                queries += what.sink == ""
                self._add_other_statement(what, statement, queries)
        self._refuse_names_that_differ_in_case()
        sources = self._source_entries()
        seeds = list(self._seed_files())
        planning.plan_models(self.models, sources, seeds, self.notes.add)
        files.disable_readers(self.models)
        texts = files.file_texts(self.name, self.models, sources, seeds)
        return Translation(texts, sorted(set(self.notes)))

    def _is_first_insert(self, name: str, statement: Statement) -> bool:
        """Returns whether a statement is the first one that fills a table."""
        return name in self.inserts and self.inserts[name][0][1] is statement

    def _refuse_names_that_differ_in_case(self) -> None:
        """Disables models that would be one table in Spark, which ignores the case of names."""
        first: dict[str, str] = {}
        for name, model in self.models.items():
            if (other := first.setdefault(name.lower(), name)) != name:
                self._disable_model(
                    model, f"{name} and {other} are one name in Spark. Give one of them another name."
                )
        for table in self.tables.values():
            names = [each.name.lower() for each in table.columns]
            if len(set(names)) < len(names):
                self.notes.add(
                    table.line,
                    f"columns of {table.name} differ in the case of their names only, and are one in Spark.",
                )

    def _disable_model(self, model: files.Model, text: str, line: int | None = None) -> None:
        """Disables a model, with a note."""
        self.notes.add(line or model.line, text)
        model.problems.append(self.notes[-1])

    # -- statements ----------------------------------------------------------------------------------

    def _collect_declarations(self) -> None:
        """Collects the tables, the functions and the names of columns."""
        self.types, self.own, self.processing_times = ColumnTypes(), {}, set()
        created: set[str] = set()
        for statement in self.script:
            what = statement.what
            if isinstance(what, CreateTable | View):
                if what.name in created:
                    self.notes.add(
                        statement.line,
                        f"{what.name} is created twice; this definition is used, also in statements before it.",
                    )
                created.add(what.name)
            if isinstance(what, CreateTable):
                what.line, what.options = statement.line, connectors.current_options(what.options)
                self._add_like_columns(what)
                self.tables[what.name] = what
                if what.query is not None:
                    self._add_insert(Insert(what.name, (), {}, what.query), statement)
                if what.left_out:
                    self.notes.add(
                        statement.line,
                        f"{' '.join(what.left_out)} of {what.name} has no counterpart and is left out.",
                    )
                for column in what.columns:
                    if column.is_processing_time:
                        self.processing_times.add(column.name)
                        self.notes.add(statement.line, processing_time_note(column.name))
                    elif column.type:
                        self.types.declare(column.name, column.type)
            elif isinstance(what, Function):
                self.own[what.name.lower()] = statement.line
            elif isinstance(what, Insert):
                self._add_insert(what, statement)
            elif isinstance(what, Other) and what.sink and what.problem is not None:
                self.unread.setdefault(what.sink, []).append(statement)
            query = what if isinstance(what, exp.Query) else getattr(what, "query", None)
            if query is not None:
                self.types.add_aliases(query)
                self.processing_times |= {
                    each.alias for each in query.find_all(exp.Alias) if is_processing_time(each.this)
                }
        self.writer = QueryWriter(self.resolve, self.types, self.own, self.processing_times, self.notes)

    def _add_like_columns(self, table: CreateTable) -> None:
        """Adds the columns, options, watermark and key that a table takes over from its LIKE table."""
        if table.like is None:
            return
        if table.like not in self.tables:
            self.notes.add(
                table.line, f"{table.name} is LIKE {table.like}, which the script doesn't create before it."
            )
            return
        base = self.tables[table.like]
        own, without = {each.name for each in table.columns}, table.excluding
        kept = [
            each
            for each in base.columns
            if each.name not in own
            and not (each.computed is not None and "GENERATED" in without)
            and not (each.metadata is not None and "METADATA" in without)
        ]
        table.columns = [*kept, *table.columns]
        table.options = {**({} if "OPTIONS" in without else base.options), **table.options}
        table.watermark = table.watermark or (None if "WATERMARKS" in without else base.watermark)
        table.key = table.key or (() if "CONSTRAINTS" in without else base.key)

    def _add_insert(self, insert: Insert, statement: Statement) -> None:
        table = self.tables.get(insert.name)
        if insert.overwrites:
            self.notes.add(
                statement.line, f"INSERT OVERWRITE {insert.name} adds its rows, as INSERT INTO does."
            )
        try:
            rows = sinks.values_as_csv(insert, table)
        except Untranslatable as problem:
            self.notes.add(problem.line or statement.line, str(problem))
            return
        if rows is None:
            self.inserts.setdefault(insert.name, []).append((insert, statement))
        elif insert.name in self.seeds:
            first, _, more = rows.partition("\n")
            if not self.seeds[insert.name].startswith(f"{first}\n"):
                self.notes.add(
                    statement.line,
                    f"the rows of {insert.name} have other columns than those before; they are left out.",
                )
            else:
                self.seeds[insert.name] += more
        else:
            self.seeds[insert.name] = rows

    def _add_setting(self, setting: Setting, line: int) -> None:
        if setting.value is None:
            for name in [setting.name] if setting.name else [*self.settings]:
                self.settings.pop(name, None)
            return
        self.settings[setting.name] = setting.value
        if setting.name not in _READ_SETTINGS:
            more = ""
            if setting.name == "table.local-time-zone":
                more = f" Give the windows that follow the wall clock time_zone='{setting.value}'."
            self.notes.add(line, f"SET '{setting.name}' has no counterpart and is left out.{more}")

    def _add_other_statement(self, what: Other, statement: Statement, number: int) -> None:
        if what.problem is None:
            is_known = what.words.split()[0].upper() in _WITHOUT_ROWS
            means = (
                "makes no rows and is left out"
                if is_known
                else "isn't translated: it is no statement known here"
            )
            self.notes.add(statement.line, f"{what.words} … {means}.")
            return
        self.notes.add(statement.line, what.problem)
        name = what.sink or f"query_{number}"
        if (
            what.sink is not None
            and name not in self.inserts
            and what.words.upper().split()[1:2] != ["TABLE"]
        ):
            note = Note(statement.line, what.problem)
            self.models[name] = files.Model(
                name, statement.line, statement.comments, problems=[note], originals=[statement.text]
            )
            self.relations[name] = NamedRelation(name, f"ref('{name}')")

    # -- relations -----------------------------------------------------------------------------------

    def resolve(self, written: str, line: int = 1) -> NamedRelation:
        """Returns the relation of a name in a query."""
        name = relation_name(written.split("."))
        if name not in self.relations:
            last = relation_name(written.split(".")[-1:])
            known = [
                each
                for each in (*self.tables, *self.relations)
                if each == last or (self.has_use_statement and each.endswith(f"_{last}"))
            ]
            if name not in self.tables and len(set(known)) == 1:
                name = known[0]
            if name not in self.relations:
                self.relations[name] = self._make_relation(name, line)
        return self.relations[name]

    def _table_named(self, name: str) -> CreateTable:
        """Returns a table; one with nothing but a name if the script doesn't create it."""
        return self.tables.get(name, CreateTable(name))

    def _make_relation(self, name: str, read_at: int) -> NamedRelation:
        table = self._table_named(name)
        is_filled = name in self.inserts or name in self.seeds
        for column in () if is_filled else connectors.unknown_metadata(table):
            table.columns.remove(column)
            self.notes.add(
                table.line,
                f"{name} has no metadata column {column.metadata} here, so its column {column.name} is left out.",
            )
        if name not in self.tables and name not in self.inserts:
            self.notes.add(
                read_at,
                f"the script doesn't create {name}. It is read from JSON files in data/{name}, with the columns that they "
                "have: say in sources.yml what it is.",
            )
        found = NamedRelation(
            name,
            f"source('{files.SOURCE}', '{name}')",
            columns=[each.name for each in table.columns if not each.is_processing_time] or None,
            processing_times=frozenset(each.name for each in table.columns if each.is_processing_time),
            event_time=table.watermark[0] if table.watermark else None,
            delay=self._watermark_delay(table),
            key=table.key,
            connector=table.options.get("connector", ""),
        )
        if is_filled:
            found.call, found.connector = f"ref('{name}')", ""
        elif any(each.is_computed for each in table.columns) or connectors.needs_parsing(table):
            found.call = f"ref('{name}')"
            self._add_staging_model(table, found)
        else:
            self.sources[name] = None
        return found

    def _watermark_delay(self, table: CreateTable) -> str:
        if table.watermark is None:
            return "0 seconds"
        column, lag = table.watermark
        try:
            if isinstance(lag, exp.Column) and lag.name == column:
                return "0 seconds"
            if isinstance(lag, exp.Sub) and isinstance(lag.this, exp.Column) and lag.this.name == column:
                return intervals.interval_text(lag.expression)
        except Untranslatable as problem:
            self.notes.add(table.line, str(problem))
            return "0 seconds"
        self.notes.add(
            table.line,
            f"the WATERMARK of {table.name} isn't a column minus an interval. Write config watermark in the models.",
        )
        return "0 seconds"

    def _add_staging_model(self, table: CreateTable, relation: NamedRelation) -> None:
        """Adds the model that computes a table's columns from its source."""
        self.sources[table.name] = None
        source = NamedRelation(
            table.name, f"source('{files.SOURCE}', '{table.name}')", event_time=relation.event_time
        )
        is_message = connectors.needs_parsing(table)
        name = _quoted_identifier(table.name)
        read: exp.Expr = exp.Table(this=name, alias=exp.TableAlias(this=name.copy()))
        columns = [each for each in table.columns if not each.is_processing_time]
        if is_message:
            message = exp.select("*", exp.alias_(connectors.parsed_value_expression(table), "message")).from_(
                read
            )
            fields = [exp.column(each.name, table="message", quoted=True) for each in table.physical]
            metadata = [_select_item(each) for each in columns if each.metadata is not None]
            query = exp.select(*fields, *metadata).from_(message.subquery(name))
            if computed := [_select_item(each) for each in columns if each.is_computed]:
                query = exp.select("*", *computed).from_(query.subquery(name))
        else:
            query = exp.select(*map(_select_item, columns)).from_(read)
        in_rows = not is_message and relation.event_time in {each.name for each in table.physical}
        is_timed = relation.event_time and not in_rows
        what = (
            f"The columns of {table.name} in Kafka's messages."
            if is_message
            else f"The computed columns of {table.name}."
        )
        model = files.Model(table.name, table.line, [what])
        self.models[table.name] = model
        writer = QueryWriter(lambda *_: source, self.types, self.own, self.processing_times, self.notes)

        def written() -> TranslatedQuery:
            if is_message and table.options["connector"] == "upsert-kafka":
                raise Untranslatable(
                    f"{table.name} is of upsert-kafka and has metadata columns, and a source has either a key or the "
                    "metadata of messages. Leave these columns out."
                )
            return writer.translate(query)

        self._write_model(model, written, {"event_time": relation.event_time} if is_timed else None)
        relation.is_inlined = not is_timed
        relation.reads = model.reads

    # -- models --------------------------------------------------------------------------------------

    def _add_view(self, view: View, statement: Statement) -> None:
        names = view.columns or column_names(view.query, self.resolve, ctes_of(view.query))
        relation = NamedRelation(view.name, f"ref('{view.name}')", is_inlined=True, columns=names)
        if (last := last_row_view(view.query, self.resolve)) is not None:
            relation.versions = Versions(*last)
        model = files.Model(view.name, statement.line, statement.comments)
        query = view.query
        if view.columns:
            read = exp.alias_(exp.Subquery(this=query), view.name, view.columns, quoted=True, copy=False)
            query = exp.select("*").from_(read)
        self._write_model(model, lambda: self.writer.translate(query), None, [statement])
        self._hint_configs(statement, is_view=True)
        if names is not None and relation.columns is not None:
            relation.columns = [each for each in names if each not in self.processing_times]
            relation.processing_times = frozenset(names) & self.processing_times
        relation.reads = model.reads
        relation.delay = _longest_delay(each.delay for each in model.reads.values())
        self.models[view.name] = model
        self.relations[view.name] = relation

    def _add_sink(self, name: str) -> None:
        """Adds the model of a table that the script writes to. All INSERTs into it become one query."""
        table = self._table_named(name)
        given = self.inserts[name]
        if name in self.seeds:
            self.notes.add(
                given[0][1].line,
                f"the rows of INSERT INTO {name} VALUES are left out: {name} is a model of the other INSERTs.",
            )
            del self.seeds[name]
        connector = table.options.get("connector")
        if name not in self.tables:
            self.notes.add(
                given[0][1].line, f"the script doesn't create {name}, so its columns are named by the query."
            )
        if connector and connector not in connectors.SINKS:
            self.notes.add(
                table.line,
                f"the connector {connector} isn't written: the rows are in the table {name}. With config changelog=true, "
                f"{name}__changes has each change of it.",
            )

        def query() -> exp.Query:
            found = None
            for insert, statement in given:
                one = sinks.inserted_query(
                    insert, table, self.resolve, self.types, self.notes, statement.line
                )
                if len(given) > 1 and any(one.args.get(each) for each in ("order", "limit", "with_")):
                    one = exp.select("*").from_(one.subquery("rows_of", copy=False))
                found = one if found is None else exp.union(found, one, distinct=False)
            assert found is not None
            if computed := [_select_item(each) for each in table.columns if each.is_computed]:
                found = exp.select("*", *computed).from_(found.subquery(_quoted_identifier(name), copy=False))
            return found

        unread = self.unread.get(name, ())
        self._add_query_model(name, [*(each for _, each in given), *unread], query)
        for statement in unread:
            assert isinstance(statement.what, Other)
            self._disable_model(self.models[name], str(statement.what.problem), statement.line)

    def _add_query_model(self, name: str, of: Sequence[Statement], query: Callable[..., exp.Query]) -> None:
        """Adds the model of a query that fills a table.

        Args:
            of: the statements that it is made from.
        """
        model = files.Model(name, of[0].line, of[0].comments)

        def written() -> TranslatedQuery:
            found = sinks.name_computed_columns(query())
            self._add_mini_batch(found)
            return self.writer.translate(found)

        table = self.tables.get(name)
        time = table.watermark[0] if table is not None and table.watermark else None
        config: dict[str, Any] = {"event_time": time} if time else {}
        if table is not None and table.partition_by:
            config["partition_by"] = table.partition_by
        for each in of:
            config |= self._hint_configs(each)
        if idle := self.settings.get(_IDLE):
            config |= self._duration_config("idle_timeout", idle, model.line)
        self._write_model(model, written, config, of)
        self.models[name] = model
        model.key = table.key if table is not None else ()
        if name not in self.relations:
            self.relations[name] = NamedRelation(name, f"ref('{name}')", event_time=time)
            self.relations[name].delay = _longest_delay(each.delay for each in model.reads.values())

    def _write_model(
        self,
        model: files.Model,
        written: Callable[[], TranslatedQuery],
        config: dict[str, Any] | None,
        of: Sequence[Statement] = (),
    ) -> None:
        """Gives a model its text, or a comment that says why it has none.

        Args:
            config: its configs; None for an ephemeral model.
        """
        before = len(self.notes)
        model.originals = [each.text for each in of]
        try:
            found = written()
        except Untranslatable as problem:
            self._disable_model(model, str(problem), problem.line)
            return
        model.text, model.reads = found.text, found.reads
        model.domains, model.group_keys = found.domains, found.group_keys
        self.looked_up |= found.looked_up
        model.notes = self.notes[before:]
        if f"ref('{model.name}')" in model.reads:
            self._disable_model(model, f"{model.name} reads itself, and a model can't.")
        if config is None:
            model.config = {"materialized": "ephemeral"}
            return
        delays = {each.delay for each in found.reads.values() if each.name not in found.looked_up}
        delay = _longest_delay(delays)
        model.config = {"materialized": "streaming_table"}
        if lengths.parse(delay):
            model.config["watermark"] = delay
        if len(delays) > 1:
            self.notes.add(
                model.line,
                f"{model.name} reads tables with different watermarks; its own is the longest, {delay}.",
            )
        model.config |= config
        if (ttl := config.get("state_ttl") or self.settings.get(_TTL)) and "state_ttl" not in config:
            model.config |= self._duration_config("state_ttl", ttl, model.line)

    def _duration_config(self, config: str, text: str, line: int) -> dict[str, str]:
        try:
            found = intervals.duration_text(text)
        except Untranslatable as problem:
            self.notes.add(line, str(problem))
            return {}
        return {config: found} if lengths.parse(found) else {}

    def _hint_configs(self, statement: Statement, is_view: bool = False) -> dict[str, str]:
        """Returns the configs that correspond to a statement's hints, and adds a note on each other hint."""
        found: dict[str, str] = {}
        for name, arguments in statement.hints:
            values = arguments.replace("'", "").split(",")
            if name == "STATE_TTL" and not is_view:
                lasts = {each.partition("=")[2].strip() for each in values}
                lengths_of_time = [
                    each
                    for text in lasts
                    for each in self._duration_config("state_ttl", text, statement.line).values()
                ]
                if lengths_of_time:
                    found["state_ttl"] = max(lengths_of_time, key=lengths.parse)
                if len(lasts) > 1:
                    self.notes.add(
                        statement.line,
                        f"STATE_TTL differs by table; state_ttl is the longest, {found.get('state_ttl')}.",
                    )
            else:
                self.notes.add(
                    statement.line, f"the hint {name}({arguments}) has no counterpart and is left out."
                )
        return found

    def _add_mini_batch(self, query: exp.Query) -> None:
        enabled, latency, size = (self.settings.get(name, "") for name in _MINI_BATCH)
        if enabled.lower() != "true":
            return
        arguments: list[exp.Expr] = []
        if latency:
            arguments += [exp.Literal.string(each) for each in self._duration_config("", latency, 0).values()]
        if size.isdigit():
            arguments.append(exp.Literal.number(size))
        if arguments:
            while isinstance(query, exp.SetOperation | exp.Subquery):
                query = query.this
            hint = exp.Anonymous(this="MINI_BATCH", expressions=arguments)
            query.set("hint", exp.Hint(expressions=[hint]))

    # -- sources and seeds ---------------------------------------------------------------------------

    def _source_entries(self) -> dict[str, files.SourceTable]:
        found = {}
        for name in self.sources:
            is_looked_up = name in self.looked_up or self._is_versioned(name)
            # A table that the script doesn't create has a note already, where it is read.
            notes = self.notes if name in self.tables else Notes()
            found[name] = connectors.TableConnector(self._table_named(name), notes).source_entry(is_looked_up)
        return found

    def _is_versioned(self, name: str) -> bool:
        return any(
            f"as_of(source('{files.SOURCE}', '{name}'), " in each.text and "key=" not in each.text
            for each in self.models.values()
        )

    def _seed_files(self) -> Iterator[files.Seed]:
        for name, rows in self.seeds.items():
            table = self._table_named(name)
            types = {each.name: each.type for each in table.physical if each.type}
            yield files.Seed(name, rows, types, table.watermark[0] if table.watermark else None)


def _longest_delay(delays: Iterable[str]) -> str:
    return max(delays, key=lengths.parse, default="0 seconds")


def _quoted_identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _select_item(column: Column) -> exp.Expr:
    """Returns a column of a table as an item of a select list over its rows."""
    if column.metadata is not None:
        read = exp.cast(exp.column(column.metadata), column.type or "string", dialect=DIALECT)
        return exp.alias_(read, _quoted_identifier(column.name))
    if column.computed is not None:
        return exp.alias_(column.computed.copy(), _quoted_identifier(column.name))
    return exp.column(_quoted_identifier(column.name))
