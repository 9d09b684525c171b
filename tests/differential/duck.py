"""Cases on DuckDB: the same programs, carried out by the few lines that a micro-batch means, many times as quick.

What the planner writes is Spark SQL; here it is translated, as is the text that gives the rows in batch, so a difference
between the two dialects is in both. It asks whether the *program* is right. Whether Spark, Iceberg and the running code
carry it out so is asked by `spark`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.program import (
    BATCH_ID,
    CHANGE_TYPE,
    TABLE_BEFORE,
    Item,
    Lookup,
    Program,
    StatePart,
    Step,
    clock_column,
)
from dbt.adapters.spark_streaming.query.program import Rows as InputRows
from dbt.adapters.spark_streaming.query.sql.dialect import from_clause
from dbt.adapters.spark_streaming.query.sql.instants import EARLIEST, LATEST
from dbt.adapters.spark_streaming.stream.common.time_zones import instant_of_local_time as utc
from dbt.adapters.spark_streaming.stream.common.time_zones import latest_local_time
from dbt.adapters.spark_streaming.util.quoting import quote_time, split_path
from tests.differential import planning
from tests.differential.outcome import (
    CRASHED,
    DIFFERENT,
    EQUAL,
    NO_BATCH,
    REFUSED,
    Outcome,
    Rows,
    compare,
    plain,
)
from tests.differential.tables import ROWS_OF_STATIC, STATIC, STREAMS, Row, Tables, cuts
from tests.differential.tree import UPSTREAM, Case, Column, Model, Printer, Written

_PIECE = "piece__"
_TYPES = {
    "string": "varchar",
    "int": "integer",
    "float": "real",
    "binary": "blob",
    "timestamp_ntz": "timestamp",
    "array<bigint>": "bigint[]",
    "struct<a:bigint,b:string>": "struct(a bigint, b varchar)",
}
_MACROS = """
create macro timestamp_micros(x) as make_timestamp(cast(x as bigint));
create macro safe_add(a, b) as a + b;
create macro pmod(a, b) as ((a % b) + b) % b;
create macro signed(x) as cast(x >> 1 as bigint);
"""


class Untranslated(Exception):
    """A text that DuckDB can't run."""


@lru_cache(maxsize=4096)
def translated(text: str) -> str:
    """Spark SQL as DuckDB's.

    >>> translated("select pmod(unix_micros(ts), 3) as x from t where a <=> b")
    'SELECT PMOD(EPOCH_US("ts"), 3) AS "x" FROM "t" WHERE "a" IS NOT DISTINCT FROM "b"'
    """
    tree = sqlglot.parse_one(text, read="spark")
    # The innermost first: what stands around one is made of copies.
    natural = [each for each in tree.find_all(exp.Join) if each.args.get("method") == "NATURAL"]
    for join in reversed([each for each in natural if each.this.alias == "no_windows"]):
        _have_columns(join)
    for struct in [each for each in tree.find_all(exp.Struct) if each.find(exp.Star)]:
        _leave_out(struct)
    for group in list(tree.find_all(exp.Group)):
        if group.find(exp.GroupingSets, exp.Rollup, exp.Cube):
            # Over no rows DuckDB has a total, Spark hasn't.
            there = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
            group.parent.having(there, copy=False)  # type: ignore[union-attr]
    for node in list(tree.walk()):
        _translate(node)
    return tree.sql("duckdb", identify=True)


def _translate(node: exp.Expr) -> None:
    if isinstance(node, exp.Hint):
        node.parent.set("hint", None)  # type: ignore[union-attr]
    elif isinstance(node, exp.DataType) and node.this in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ):
        node.set("this", exp.DType.TIMESTAMP)
    elif isinstance(node, exp.AtTimeZone | exp.FromTimeZone):
        # Times have no zone in here, and are in UTC.
        zones = [node.args["zone"], exp.Literal.string("UTC")]
        first, last = reversed(zones) if isinstance(node, exp.AtTimeZone) else zones
        inner = exp.Anonymous(this="timezone", expressions=[first, node.this])
        node.replace(exp.Anonymous(this="timezone", expressions=[last, inner]))
    elif isinstance(node, exp.Struct):
        stars = [each for each in node.expressions if isinstance(each, exp.Column) and each.is_star]
        if stars:
            node.replace(exp.column(stars[0].table))
        elif any(isinstance(each, exp.Star) for each in node.expressions):
            node.replace(exp.column(_alias_of_source(node)))
    elif isinstance(node, exp.FirstValue | exp.First) and not isinstance(node.parent, exp.Window):
        node.replace(exp.AnyValue(this=node.this))
    elif isinstance(node, exp.GenerateSeries):
        # A sum is a HUGEINT, which it doesn't take.
        node.set("end", exp.Cast(this=node.args["end"], to=exp.DataType.build("bigint")))
    elif isinstance(node, exp.Count) and node.expressions:
        there = exp.and_(*(each.copy().is_(exp.null()).not_() for each in (node.this, *node.expressions)))
        node.replace(exp.Count(this=exp.Case(ifs=[exp.If(this=there, true=exp.Literal.number(1))])))
    elif isinstance(node, exp.ArgMax | exp.ArgMin):
        # DuckDB's own pass over NULL.
        name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
        node.replace(exp.Anonymous(this=name, expressions=[node.this, node.expression]))
    elif isinstance(node, exp.CountIf):
        # DuckDB's own is NULL where all tests are.
        node.replace(exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))])))
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "grouping_id" and not node.expressions:
        node.replace(_grouping_id(node))
    elif type(node).__name__ == "GroupingId" and not node.expressions:
        node.replace(_grouping_id(node))
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "xxhash64":
        hashed = exp.Anonymous(this="hash", expressions=node.expressions)
        node.replace(exp.Anonymous(this="signed", expressions=[hashed]))


def _have_columns(join: exp.Join) -> None:
    """Rows that have columns whether they are theirs or not. (DuckDB refuses a natural join without any in common.)"""
    select = join.parent
    assert isinstance(select, exp.Select)
    from_ = from_clause(select)
    assert from_ is not None
    names = [item.alias for item in join.this.this.expressions]
    none = exp.select(*(f"cast(null as timestamp) as {name}" for name in names)).where("false")
    own = exp.select("*").from_(from_.this.copy())
    select.set("joins", None)
    from_.this.replace(exp.Subquery(this=exp.Union(this=none, expression=own, distinct=False, by_name=True)))


def _leave_out(struct: exp.Expr) -> None:
    """`struct(input.* except (…))`."""
    star = next((each for each in struct.expressions if each.is_star), None)
    if star is None or not star.find(exp.Star).args.get("except_"):
        return  # it is in a struct within, or leaves out nothing
    columns = exp.Columns(this=star.copy(), unpack=True)
    struct.replace(exp.Anonymous(this="struct_pack", expressions=[columns]))


def _alias_of_source(node: exp.Expr) -> str:
    """The alias of the only source of the SELECT around a node; a row is a struct under its name."""
    select = node.find_ancestor(exp.Select)
    assert select is not None
    from_ = from_clause(select)
    assert from_ is not None
    source = from_.this
    if not source.alias:
        source.set("alias", exp.TableAlias(this=exp.to_identifier("source__")))
    return str(source.alias_or_name)


def _grouping_id(node: exp.Expr) -> exp.Expr:
    select = node.find_ancestor(exp.Select)
    assert select is not None
    group = select.args["group"]
    names: dict[str, None] = {}
    for clause in ("rollup", "cube", "grouping_sets"):
        for each in group.args.get(clause) or ():
            for column in each.find_all(exp.Column):
                names.setdefault(column.name)
    return exp.Anonymous(this="grouping", expressions=[exp.column(name) for name in names])


class Laboratory:
    """Runs cases in DuckDB."""

    def __init__(self) -> None:
        self.base = duckdb.connect(config={"threads": 1})
        self.base.execute(_MACROS)
        self.tables: Tables | None = None
        self.rows_of: dict[str, int] = {}
        for name, rows in ROWS_OF_STATIC.items():
            self.table(name, STATIC[name], list(rows))

    def table(self, name: str, columns: tuple[Column, ...], rows: list[Row]) -> None:
        """Makes a table."""
        listed = ", ".join(f'"{column.name}" {_TYPES.get(column.kind, column.kind)}' for column in columns)
        self.base.execute(f"create or replace table {name} ({listed})")
        if rows:
            marks = ", ".join("?" for _ in columns)
            self.base.executemany(
                f"insert into {name} values ({marks})", [tuple(map(_parameter, row)) for row in rows]
            )

    def show(self, tables: Tables) -> None:
        """Makes these the rows of the streams."""
        if self.tables is tables:
            return
        self.tables = tables
        for name, pieces in tables.streams.items():
            self.put(name, STREAMS[name], pieces)

    def put(self, name: str, columns: tuple[Column, ...], pieces: Sequence[Sequence[Row]]) -> None:
        """Makes a stream of pieces."""
        rows = [(*row, number) for number, piece in enumerate(pieces) for row in piece]
        self.table(f"{name}__pieces", (*columns, Column(_PIECE, "int")), rows)
        self.base.execute(f"create or replace view {name} as select * exclude ({_PIECE}) from {name}__pieces")

    def read(self, name: str, path: str) -> None:
        """Makes a stream of the rows of a Parquet file, in their order; in one piece until it is `cut`."""
        described = self.base.execute(f"describe select * from read_parquet('{path}')").fetchall()
        listed = ", ".join(
            f"timezone('UTC', {column}) as {column}" if kind == "TIMESTAMP WITH TIME ZONE" else column
            for column, kind, *_ in described
        )
        self.base.execute(
            f"create or replace table {name}__pieces as select {listed}, 0 as {_PIECE} from read_parquet('{path}')"
        )
        self.base.execute(f"create or replace view {name} as select * exclude ({_PIECE}) from {name}__pieces")
        ((self.rows_of[name],),) = self.base.execute(f"select count(*) from {name}").fetchall()

    def cut(self, pieces: int) -> None:
        """Cuts the streams that were read into pieces."""
        for name, rows in self.rows_of.items():
            self.base.execute(f"update {name}__pieces set {_PIECE} = rowid * {pieces} // {rows}")

    def stream(
        self, batch: str, program: Program, pieces: int, delay: timedelta, fold: bool = True
    ) -> Outcome:
        """Runs a program over the streams that were put here.

        Args:
            batch: a query with the rows that it is to have in the end.
            program: the program.
            pieces: in how many cuts.
            delay: of the watermark.
            fold: whether the state is folded after each micro-batch.
        """
        database = self.base.cursor()
        try:
            found = database.execute(translated(batch))
            columns = tuple(Column(each[0], "") for each in found.description)
            expected = rows_of(found.fetchall())
            made = Streamed(
                Model(Written(batch, columns)),
                program,
                database,
                fold=fold,
                delay=delay // timedelta(microseconds=1),
            )
            for cut in cuts(pieces):
                made.take(cut)
            made.flush()
        except Untranslated as problem:
            return Outcome(NO_BATCH, f"program: {problem}")
        except (duckdb.Error, sqlglot.ParseError) as problem:
            return Outcome(NO_BATCH, _first_line(problem))
        finally:
            database.close()
        difference = compare(expected, made.rows())
        return Outcome(DIFFERENT if difference else EQUAL, difference, made.steps)

    def steps(
        self,
        batch: str,
        program: Program,
        pieces: int,
        delay: timedelta,
        before: Callable[[int], None] = lambda _: None,
    ) -> list[Rows]:
        """The table after each cut, and in the end. Arguments as of `stream`; `before` is called before each cut with its
        number."""
        database = self.base.cursor()
        found = database.execute(translated(batch))
        columns = tuple(Column(each[0], "") for each in found.description)
        micros = delay // timedelta(microseconds=1)
        made = Streamed(Model(Written(batch, columns)), program, database, fold=True, delay=micros)
        seen = []
        for number, cut in enumerate(cuts(pieces)):
            before(number)
            made.take(cut)
            seen.append(made.rows())
        made.flush()
        database.close()
        return [*seen, made.rows()]

    def run(self, case: Case, tables: Tables, fold: bool = True) -> Outcome:
        """Runs a case and says what became of it.

        Args:
            case: the case.
            tables: the rows of its streams.
            fold: whether the state is folded after each micro-batch.
        """
        began = time.monotonic()
        found = self._run(case, tables, fold)
        return Outcome(found.kind, found.detail, found.batches, time.monotonic() - began)

    def _run(self, case: Case, tables: Tables, fold: bool) -> Outcome:
        try:
            self.show(tables)
            program = planning.planned(case.upstream or case.model, ask=self.ask)
        except QueryError as refusal:
            return Outcome(REFUSED, str(refusal))
        except Exception as problem:
            return Outcome(CRASHED, f"planner: {type(problem).__name__}: {problem}")
        database = self.base.cursor()
        try:
            try:
                if case.upstream is not None:
                    expected = translated(planning.expected(case.upstream, case, tables))
                    self.base.execute(f"create or replace table {UPSTREAM} as {expected}")
                batch = rows_of(
                    database.execute(translated(planning.expected(case.model, case, tables))).fetchall()
                )
            except (duckdb.Error, sqlglot.ParseError) as problem:
                return Outcome(NO_BATCH, _first_line(problem))
            return self._streamed(case, program, batch, database, fold)
        except QueryError as refusal:
            return Outcome(REFUSED, str(refusal))
        except Untranslated as problem:
            return Outcome(NO_BATCH, f"program: {problem}")
        except Refused as refusal:
            return Outcome(REFUSED, str(refusal))
        except Wrong as problem:
            return Outcome(DIFFERENT, str(problem))
        finally:
            database.close()

    def ask(self, query: str) -> Sequence[object]:
        """What a session of Spark would say to the planner, as far as DuckDB can tell."""
        if query.startswith("explain"):
            try:
                self.base.execute(translated(query.removeprefix("explain extended ")))
            except (duckdb.Error, sqlglot.ParseError):
                return ["UNRESOLVED_COLUMN UNRESOLVED_ROUTINE"]
            return ["== Analyzed Logical Plan =="]
        if "current_timezone" in query:
            return ["UTC"]
        tree = sqlglot.parse_one(query, read="spark")
        assert isinstance(tree, exp.Select)
        asked, read = tree.expressions, tree.args["joins"][0].this.unnest()
        if len(asked) == 1:  # the columns of a relation, or an expression over them
            value = read.expressions[0].unalias()
            value = value.this if isinstance(value, exp.AnyValue) else value
            is_row = isinstance(value, exp.Struct)
            read.set("expressions", [exp.Star() if is_row else exp.alias_(value.copy(), "value")])
            try:
                described = self.base.execute(f"describe {translated(read.sql('spark'))}").fetchall()
            except duckdb.Error as problem:
                raise QueryError(_first_line(problem)) from problem
            kinds = [(name, _type_in_spark(kind)) for name, kind, *_ in described]
            return [f"struct<{','.join(map(':'.join, kinds))}>"] if is_row else [kinds[0][1]]
        # Of each call: its own type, that of a sum, of the sum divided by a count, and of the argument.
        tree.set("expressions", asked[3::4])
        read.set("expressions", read.expressions[3::4])
        try:
            row = self.base.execute(translated(tree.sql("spark"))).fetchone()
        except duckdb.Error as problem:
            raise QueryError(_first_line(problem)) from problem
        return [kind for argument in row or () for kind in _types_of_sums(str(argument))]

    def _streamed(self, case: Case, program: Program, batch: Rows, database: Any, fold: bool) -> Outcome:
        above = Streamed(case.upstream or case.model, program, self.base.cursor(), fold)
        below: Streamed | None = None
        for cut in cuts(case.cuts):
            above.take(cut)
            if case.upstream is not None:
                below = below or self._downstream(case, above, fold)
                below.read(above)
        above.flush()
        if below is not None:
            below.read(above)
            below.flush()
        last = below or above
        difference = compare(batch, last.rows())
        return Outcome(
            DIFFERENT if difference else EQUAL, difference, above.steps + (below.steps if below else 0)
        )

    def streamed(self, case: Case, tables: Tables, fold: bool) -> Rows:
        """The rows that a model has in the end, whatever its text gives in batch."""
        self.show(tables)
        made = Streamed(case.model, planning.planned(case.model, ask=self.ask), self.base.cursor(), fold)
        for cut in cuts(case.cuts):
            made.take(cut)
        made.flush()
        return made.rows()

    def _downstream(self, case: Case, above: Streamed, fold: bool) -> Streamed:
        try:
            known = planning.known_of(case, above.program)
        except QueryError as problem:
            raise Refused(str(problem)) from problem
        program = planning.planned(case.model, known=known, ask=self.ask)
        return Streamed(case.model, program, self.base.cursor(), fold)


def _type_in_spark(kind: str) -> str:
    try:
        return exp.DataType.build(kind, dialect="duckdb").sql("spark")
    except sqlglot.ParseError:
        return "void"  # of NULL


def _types_of_sums(argument: str) -> tuple[str, str, str, str]:
    """What Spark says of AVG, of SUM, of SUM / COUNT and of the argument itself, whose type in DuckDB is given.

    (A call is SUM or AVG; its own type is asked for averages alone.)

    >>> _types_of_sums("INTEGER"), _types_of_sums("DECIMAL(10,2)")
    (('double', 'bigint', 'double', 'integer'), ('decimal(14,6)', 'decimal(20,2)', 'decimal(38,20)', 'decimal(10,2)'))
    """
    kind = argument.lower()
    if not kind.startswith("decimal("):
        return ("double", "double" if kind in ("double", "float", "varchar") else "bigint", "double", kind)
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    total = min(38, precision + 10)
    # Of decimal(total, scale) / decimal(20, 0).
    digits, behind = total - scale, max(6, scale + 21)
    quotient = (digits + behind, behind)
    if quotient[0] > 38:
        quotient = (38, max(38 - digits, min(behind, 6)))
    average = (min(38, precision + 4), min(38, scale + 4))
    if precision + 4 > 38:
        average = (38, max(38 - (precision - scale), min(scale + 4, 6)))
    return (
        f"decimal({average[0]},{average[1]})",
        f"decimal({total},{scale})",
        f"decimal({quotient[0]},{quotient[1]})",
        kind,
    )


class Refused(Exception):
    """What the running code refuses."""


class Wrong(Exception):
    """Rows that the running code takes to be told apart, or to be the same after a crash."""


def _is_usable(column: str) -> str:
    """As `instants.usable_time_condition`."""
    return f"epoch_us({column}) between {EARLIEST} and {LATEST}"


def _expected(model: Model) -> str:
    return Printer(ties=True).text(model.root)


@dataclass
class Clock:
    """How far event time has come."""

    batch: int = -1
    flush: int = 0
    before: int | None = None
    after: int | None = None


class Streamed:
    """A model that is kept up to date.

    Args:
        model: the model.
        program: what a micro-batch of it does.
        database: a connection of its own.
        fold: whether the state is folded after each step.
        delay: of the watermark, in microseconds.
    """

    def __init__(
        self, model: Model, program: Program, database: Any, fold: bool, delay: int = 11 * 60_000_000
    ) -> None:
        self.program, self.fold = program, fold
        self.database = database
        self.delay = delay + program.extra_delay
        self.newest: dict[str, int | None] = {each.relation: None for each in program.inputs}
        self.clock = Clock()
        self.parts: dict[str, str] = {}
        self._apart = False
        self._new: set[str] = set()
        self._shown = ""
        self.target: list[Row] = []
        self.changes: list[tuple[Row, str, int]] = []
        self.read_changes = 0
        self.counts: dict[str, int] = {}
        self.steps = 0
        self.columns: list[str] = [column.name for column in model.root.columns]
        if TABLE_BEFORE in program.output:
            self._do(
                f"create or replace temp table {TABLE_BEFORE} as select * from ({translated(_expected(model))}) limit 0"
            )
        self._make_state()

    # -- DuckDB --------------------------------------------------------------------------------------

    def _sql(self, text: str) -> str:
        try:
            return translated(text)
        except Exception as problem:
            raise Untranslated(f"{_first_line(problem)}") from problem

    def _do(self, text: str) -> Any:
        try:
            return self.database.execute(text)
        except duckdb.Error as problem:
            if isinstance(problem, duckdb.CatalogException) and "Table with name" in str(problem):
                raise Wrong(f"The program reads what nobody makes: {_first_line(problem)}") from problem
            raise Untranslated(f"{_first_line(problem)} | {text[:3000]}") from problem

    def _show(self, name: str, text: str) -> int:
        (rows,) = self._do(f'create or replace temp table "{name}" as {self._sql(text)}').fetchone()
        # Of integers a sum is a HUGEINT, whose hash isn't a BIGINT's.
        for column, kind, *_ in self._do(f'describe "{name}"').fetchall():
            if kind == "HUGEINT":
                self._do(f'alter table "{name}" alter "{column}" type bigint')
        return int(rows)

    # -- state -----------------------------------------------------------------------------------------

    def _make_state(self) -> None:
        """Empty tables for all parts, by a step without rows."""
        self._register_clock()
        for stream in self.program.inputs:
            self._show_stream(stream, "false")
        for item in self.program.items:
            if isinstance(item, StatePart):
                name = f"part_{len(self.parts)}"
                self._do(f"create or replace temp table {name} as {self._sql(_text(item, True))}")
                self._do(f"delete from {name}")
                self.parts[item.name] = name
            elif isinstance(item, Step) and item.sees_changes:
                self._register_state()
                self._show(item.name, item.sql)
            else:
                self._evaluate(item, True)
        self._apart = self._are_apart()

    def _register_state(self, parts: Sequence[str] = (), changes: bool = False) -> None:
        """Shows a text the state: no other parts than it reads, where columns of one name are of several types; with the
        rows that are to be added to these parts, if it sees changes."""
        united = " union all by name ".join(
            f"select '{part}' as part, * from {each}"
            for part in (parts if self._apart and parts else self.parts)
            for table in [self.parts[part]]
            for each in (
                table,
                *([f"new_{table}"] if changes and part in parts and part in self._new else []),
            )
        )
        if united != self._shown:
            self._do(f"create or replace temp view state as {united}")
            self._shown = united

    def _are_apart(self) -> bool:
        """Whether parts have columns of one name and several types, which a union by name would make one of."""
        columns = {
            (name.lower(), kind)
            for table in self.parts.values()
            for name, kind, *_ in self._do(f"describe {table}").fetchall()
        }
        return len(columns) > len({name for name, _ in columns})

    def _is_empty(self) -> bool:
        return all(self._do(f"select count(*) from {t}").fetchone()[0] == 0 for t in self.parts.values())

    # -- a step ------------------------------------------------------------------------------------------

    def _register_clock(self) -> None:
        def instant(micros: int | None) -> str:
            return "cast(null as timestamp)" if micros is None else f"make_timestamp({micros}::bigint)"

        kept = self.program.allowed_lateness
        clock = self.clock
        times = {"now_before": clock.before, "now_after": clock.after}
        times["watermark_before"] = None if clock.before is None else clock.before - kept
        times["watermark_after"] = None if clock.after is None else clock.after - kept
        values: dict[str, str] = {}
        for zone in (None, *self.program.time_zones):
            values |= {
                clock_column(name, zone): instant(latest_local_time(at, zone)) for name, at in times.items()
            }
        values["batch_id"] = f"{clock.batch}::bigint"
        values["step"] = f"{clock.batch * 1000 + clock.flush}::bigint"
        listed = ", ".join(f'{value} as "{name}"' for name, value in values.items())
        self._do(f"create or replace temp table clock as select {listed}")

    def _show_stream(self, stream: Any, where: str) -> None:
        if stream.relation == UPSTREAM:
            return self._show_upstream(stream, [])
        self._do(
            f'create or replace temp table "{stream.view}" as '
            f"select {self._wanted(stream)} from {stream.relation}__pieces where {where}"
        )
        return None

    def _wanted(self, stream: Any) -> str:
        """The columns that are read of a stream, as `sources.wanted` takes them."""
        described = self._do(f"describe {stream.relation}__pieces").fetchall()
        has = [f'"{name}"' for name, *_ in described if name != _PIECE]
        read = None if stream.columns is None else {f'"{name.lower()}"' for name in stream.columns}
        return ", ".join([name for name in has if read is None or name.lower() in read] or has[:1])

    def _show_upstream(self, stream: Any, rows: list[tuple[Row, str, int]]) -> None:
        """The rows that came upstream, or what changed there."""
        more = f", cast('' as varchar) as {CHANGE_TYPE}, 0::bigint as {BATCH_ID}" if stream.feed else ""
        self._do(f'create or replace temp table "{stream.view}" as select *{more} from {UPSTREAM} limit 0')
        self._insert(stream.view, [(*row, kind, batch) if stream.feed else row for row, kind, batch in rows])

    def take(self, cut: tuple[int, int]) -> None:
        """Takes in a cut of the streams."""
        self._begin()
        for stream in self.program.inputs:
            if stream.relation == UPSTREAM:
                raise Untranslated("a stream beside the model upstream")
            self._show_stream(stream, f"{_PIECE} >= {cut[0]} and {_PIECE} < {cut[1]}")
        self._step()

    def read(self, above: Streamed) -> None:
        """Takes in what the model upstream wrote."""
        rows = above.changes[self.read_changes :]
        self.read_changes = len(above.changes)
        if not rows:
            return
        self._begin()
        for stream in self.program.inputs:
            if stream.relation != UPSTREAM:
                raise Untranslated("a stream beside the model upstream")
            self._show_upstream(stream, rows)
        self._step()

    def _begin(self) -> None:
        self.clock = Clock(self.clock.batch + 1, 0, self.clock.after, self.clock.after)
        self.steps += 1

    def _step(self) -> None:
        program = self.program
        self._register_clock()
        if not program.keeps_state:
            self._emit_rows()
            self._advance({})
            return
        self._advance(self._arrive())
        self._register_clock()
        self._compute(program.ingest)

    def _arrive(self) -> dict[str, int | None]:
        """What is there before the watermark moves on; the newest time of each stream whose time is computed."""
        empty, newest = self._is_empty(), dict[str, int | None]()
        for item in self.program.arrival:
            for view, most in self._evaluate(item, empty).items():
                newest[view] = max((t for t in (newest.get(view), most) if t is not None), default=None)
        return newest

    def _compute(self, ingest: Sequence[Item]) -> None:
        """All changes, from the state as it was, the one commit, and what comes out."""
        closes, empty = self._closes(), self._is_empty()
        self._new = set()
        # Every other time all that may be written as a whole is.
        whole = not empty and self.steps % 2 == 0
        items = (*ingest, *(self.program.cascade if closes else ()))
        for item in items:
            self._evaluate(item, empty, whole)
        there = {item.name for item in items if isinstance(item, Step)}
        for part in self.program.parts:
            table = self.parts[part.name]
            if whole and part.rewrite and part.name in self._new:
                self._do(f"delete from {table}")
            if part.name in self._new:
                self._do(f"insert into {table} by name select * from new_{table}")
        self._shown = ""
        self._register_state()
        if not closes:
            return
        for step in self.program.output_steps:
            known = self._rows_in(step.name) if step.name in there else None
            self._step_of(step, False)
            if known is not None and self._rows_in(step.name) != known:
                raise Wrong(f"{step.name} is another after a crash")
        self._look_at_fresh(self.program.output_steps)
        self._emit_rows()
        self._fold()

    def _evaluate(self, item: Item, empty: bool, whole: bool = False) -> Mapping[str, int | None]:
        """Makes an item of the program; the newest times of rows."""
        if isinstance(item, Lookup):
            self._look_up([item])
        elif isinstance(item, InputRows):
            return self._judge(item)
        elif isinstance(item, Step):
            wanted = replace(item, sql=item.full_scan.sql) if whole and item.full_scan else item
            self._step_of(wanted, empty and not item.sees_changes)
        else:
            self._register_state(item.reads)
            text = item.rewrite.sql if whole and item.rewrite else _text(item, empty)
            self._show(f"new_{self.parts[item.name]}", text)
            self._new.add(item.name)
        return {}

    def _look_up(self, lookups: Sequence[Lookup]) -> None:
        """What tables outside have for keys."""
        for each in lookups:
            on = " and ".join(f"own.{name} = asked.key_{n}" for n, name in enumerate(each.key, 1))
            self._show(
                each.view,
                f"select own.* from {each.relation} as own left semi join (\n{each.keys}\n) as asked on {on}",
            )

    def _step_of(self, step: Step, empty: bool) -> None:
        self._register_state(step.reads, step.sees_changes)
        nothing = step.unless_empty is not None and not self.counts.get(step.unless_empty, 1)
        self.counts[step.name] = self._show(step.name, _text(step, empty or nothing))

    def _judge(self, rows: InputRows) -> dict[str, int | None]:
        """The rows that aren't late; the newest time of each stream whose time is computed."""
        newest: dict[str, int | None] = {}
        watermark = clock_column("watermark_before", rows.time_zone)
        late = f"coalesce(step.expires_at <= clock.{watermark}, false)" if rows.expires else "false"
        clock = " cross join clock" if rows.expires else ""
        self._do(
            f'create or replace temp table "{rows.name}" as select step.*, {late} as late__ '
            f"from ({self._sql(rows.sql)}) as step{clock}"
        )
        if rows.timed:
            usable = _is_usable("event_time")
            (most,) = self._do(
                f'select max(epoch_us(event_time)) from "{rows.name}" where {usable}'
            ).fetchone()
            for view in rows.streams:
                newest[view] = max((t for t in (newest.get(view), most) if t is not None), default=None)
            self._do(f'delete from "{rows.name}" where not coalesce({usable}, false) or late__')
            self._do(f'alter table "{rows.name}" drop column event_time')
        else:
            self._do(f'delete from "{rows.name}" where late__')
        self._do(f'alter table "{rows.name}" drop column late__')
        return newest

    def _advance(self, computed: Mapping[str, int | None]) -> None:
        for stream in self.program.inputs:
            if stream.event_time is None:
                seen = computed.get(stream.view)
            else:
                path = split_path(quote_time(stream.event_time))
                column = ".".join(f'"{name}"' for name in path)
                text = f'select max(epoch_us({column})) from "{stream.view}" where {_is_usable(column)}'
                (seen,) = self._do(text).fetchone()
            had = self.newest[stream.relation]
            if seen is not None:
                self.newest[stream.relation] = seen if had is None else max(had, seen)
        times = list(self.newest.values())
        if all(time is not None for time in times):
            slowest = min(time for time in times if time is not None) - self.delay
            self.clock.after = slowest if self.clock.after is None else max(self.clock.after, slowest)

    def _closes(self) -> bool:
        """Whether something may come out."""
        program, clock = self.program, self.clock
        return program.boundaries is None or any(
            each.count_closing(
                *(
                    latest_local_time(None if at is None else at - each.extra_delay, each.time_zone)
                    for at in (clock.before, clock.after)
                )
            )
            > 0
            for each in program.boundaries
        )

    def _rows_in(self, name: str) -> Rows:
        return rows_of(self._do(f'select * from "{name}"').fetchall())

    def _look_at_fresh(self, emit: Sequence[Step]) -> None:
        """Whether what comes out of the steps of before the commit is what comes out of the state after it."""
        if all(step.fresh is None for step in emit):
            return
        said = [self._rows_in(step.name) for step in emit]
        for step, rows in zip(emit, said, strict=True):
            self._show(step.name, step.fresh or step.sql)
            found = self._rows_in(step.name)
            # A step that only says which keys are touched may say so twice.
            same = found.keys() == rows.keys() if step.persist else found == rows
            if not same:
                raise Wrong(
                    f"{step.name} is another after a crash: {found - rows} in place of {rows - found}"
                )

    def _fold(self) -> None:
        if not self.fold:
            return
        for part in self.program.parts:
            self._register_state(part.reads)
            self._show(f"folded_{self.parts[part.name]}", part.fold)
        for table in self.parts.values():
            self._do(f"delete from {table}")
            own = ", ".join(f'"{row[0]}"' for row in self._do(f"describe {table}").fetchall())
            self._do(f"insert into {table} by name select {own} from folded_{table}")

    def _emit_rows(self) -> None:
        self._look_up(self.program.lookups)
        upsert = self.program.upsert
        names = ", ".join(f'"{name}"' for name in self.columns)
        if TABLE_BEFORE in self.program.output:
            self._do(f"delete from {TABLE_BEFORE}")
            self._insert(TABLE_BEFORE, self.target)
        new: list[Row] = self._do(f"select {names} from ({self._sql(self.program.output)})").fetchall()
        if upsert is None:
            self.changes += [(row, "insert", self.clock.batch) for row in new]
            self.target += new
            return
        if upsert.key is None:
            self._replace(self.target, new)
            self.target = new
            return
        self._show("fired_windows", upsert.affected_keys)
        at = [self.columns.index(next(c for c in self.columns if c.lower() == k.lower())) for k in upsert.key]
        keys = Counter(tuple(map(plain, (row[i] for i in at))) for row in new)
        if any(count > 1 for count in keys.values()):
            if upsert.key_is_unique:
                raise Wrong(
                    f"the key {', '.join(upsert.key) or '()'} doesn't tell the rows apart, and nobody looks"
                )
            raise Refused("two rows of its result have the same key")
        self._do(
            f"create or replace temp table old_rows as select {names} from ({self._sql(self.program.output)}) limit 0"
        )
        self._insert("old_rows", self.target)
        scope = translated(f"select 1 from old join fired on {upsert.condition}").partition(" ON ")[2]
        kept: list[Row] = self._do(
            f'select old.* from old_rows as "old" anti join fired_windows as "fired" on {scope}'
        ).fetchall()
        self._replace(self.target, kept + new)
        self.target = kept + new

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            self.database.executemany(f'insert into "{table}" values ({marks})', rows)

    def _replace(self, old: list[Row], new: list[Row]) -> None:
        """Notes what changes."""
        batch = self.clock.batch * 1000 + self.clock.flush
        gone, came = rows_of(old) - rows_of(new), rows_of(new) - rows_of(old)
        for rows, kind, listed in ((gone, "delete", old), (came, "insert", new)):
            for row in listed:
                key = tuple(map(plain, row))
                if rows[key] > 0:
                    rows[key] -= 1
                    self.changes.append((row, kind, batch))

    def begin_without_input(self) -> None:
        """Puts out what there is before the first micro-batch."""
        if self.steps or not self.program.has_rows_without_input:
            return
        self._begin()
        for stream in self.program.inputs:
            if stream.relation == UPSTREAM:
                self._show_upstream(stream, [])
            else:
                self._show_stream(stream, "false")
        self._step()

    def flush(self) -> None:
        """Closes all windows."""
        self.begin_without_input()
        zones = [
            (self.parts[part.name], part.closes, part.time_zone)
            for part in self.program.parts
            if part.closes is not None
        ]
        while zones:
            times = [
                (self._do(f"select max(epoch_us({column})) from {table}").fetchone()[0], zone)
                for table, column, zone in zones
            ]
            last = max((utc(time, zone) for time, zone in times if time is not None), default=None)
            if last is None:
                return
            closing = last + self.program.allowed_lateness
            clock = self.clock
            if clock.after is not None and closing <= clock.after:
                return
            self.clock = Clock(clock.batch, clock.flush + 1, clock.after, closing)
            self.steps += 1
            if self.program.flushes_from_state:
                self._register_clock()
                self._compute(())
                continue
            for stream in self.program.inputs:
                self._show_stream(stream, "false")
            self._register_clock()
            self._arrive()
            self._compute(self.program.ingest)

    def rows(self) -> Rows:
        """The table's rows."""
        return rows_of(self.target)


def _text(made: Step | StatePart, empty: bool) -> str:
    if empty and made.initial is not None:
        return made.initial
    return made.append if isinstance(made, StatePart) else made.sql


def rows_of(rows: list[Row]) -> Rows:
    """Rows of DuckDB's, to compare."""
    return Counter(tuple(map(plain, row)) for row in rows)


def _parameter(value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(zip("ab", value, strict=True))
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def _first_line(problem: BaseException) -> str:
    return re.sub(r"\s+", " ", str(problem))[:300]
