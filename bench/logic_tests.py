"""Queries of other engines' logic tests, each as a stream in cuts and in batch: the same rows, or refused.

Files are those of SQLite's format (.slt, .test), in which DuckDB, RisingWave and others write their tests: statements and
queries, one after the other. Tables are made as a file says, in DuckDB. Each query over them, and each view, is planned
with all of its tables as streams and a `state_ttl` of ten years, and carried out on DuckDB in four cuts of rows in another
order; what comes of it is compared with what the query gives at once. What the files expect isn't looked at. Columns
without a name get one, and an order that nothing depends on is left out.

None of them is in this repository. With a clone of DuckDB's or RisingWave's:

    python bench/logic_tests.py --dialect duckdb duckdb/test/sql/subquery duckdb/test/sql/setops
    python bench/logic_tests.py --dialect risingwave risingwave/e2e_test/streaming risingwave/e2e_test/batch
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

sys.path.insert(0, str(Path(__file__).parents[1]))

from dbt.adapters.spark_streaming.project import streaming
from dbt.adapters.spark_streaming.query.errors import QueryError
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from tests.differential.duck import Laboratory, rows_of, translated
from tests.differential.outcome import CRASHED, DIFFERENT, EQUAL, NO_BATCH, REFUSED, Outcome, compare

_CUTS, _TIME, _RAW = 4, "event_time__", "raw"
_NODE = {"name": "m", "config": {"materialized": "streaming_table", "state_ttl": "3650 days"}}
_NO_STATE = "this one has no state"


@dataclass
class LogicTest:
    """A file that is gone through, with the tables and views there are so far.

    Args:
        laboratory: where they are made; nothing else is in it.
        dialect: sqlglot's name of the file's dialect.
        seconds: a query may take.
    """

    laboratory: Laboratory
    dialect: str
    seconds: int
    _tables: set[str] = field(default_factory=set)
    _views: dict[str, exp.Query] = field(default_factory=dict)
    _done: set[tuple[str, int]] = field(default_factory=set)
    _changes: int = 0

    def run(self, text: str) -> Iterator[tuple[str, Outcome]]:
        """Goes through a file.

        Returns:
            Each query in Spark's SQL, with what became of it.
        """
        self.laboratory.base.execute(f"create or replace schema {_RAW}")
        for body in statements(text):
            try:
                trees = [each for each in sqlglot.parse(body, read=self.dialect) if each is not None]
            except SqlglotError:
                continue
            for tree in trees:
                yield from self._carry_out(tree)
        for name in list(self._views):
            yield from self._query(exp.select("*").from_(name))

    def _carry_out(self, tree: exp.Expr) -> Iterator[tuple[str, Outcome]]:
        if isinstance(tree, exp.Query):
            yield from self._query(tree)
        elif isinstance(tree, exp.Create) and isinstance(tree.expression, exp.Query | exp.Subquery):
            yield from self._make_view(tree)
        elif isinstance(tree, exp.Create) and tree.kind == "TABLE":
            name = tree.find(exp.Table)
            assert name is not None
            tree.set("properties", None)
            for column in tree.find_all(exp.ColumnDef):
                column.set("constraints", [])
            if isinstance(tree.this, exp.Schema):
                columns = [each for each in tree.this.expressions if isinstance(each, exp.ColumnDef)]
                tree.this.set("expressions", columns)
            tree.set("exists", None)
            tree.set("replace", True)
            self._tables.add(name.name.lower())
            self._change(tree)
        elif isinstance(tree, exp.Insert | exp.Delete | exp.Update):
            self._change(tree)
        elif isinstance(tree, exp.Drop) and (dropped := tree.find(exp.Table)) is not None:
            if dropped.name.lower() in self._views:
                yield from self._query(exp.select("*").from_(dropped.name))
                del self._views[dropped.name.lower()]
            elif dropped.name.lower() in self._tables:
                self._change(tree)
                self._tables.discard(dropped.name.lower())

    def _make_view(self, tree: exp.Create) -> Iterator[tuple[str, Outcome]]:
        """A view, or a table of a query's rows."""
        made = tree.find(exp.Table)
        assert made is not None
        if tree.kind == "TABLE":
            self._tables.add(made.name.lower())
            self._change(tree)
            return
        query = tree.expression.unnest().copy()
        names = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        _name_columns(query, [each.name for each in names])
        self._views[made.name.lower()] = query
        yield from self._query(exp.select("*").from_(made.name))

    def _change(self, tree: exp.Expr) -> None:
        tree = tree.copy()
        for table in tree.find_all(exp.Table):
            if table.name.lower() in self._tables:
                table.set("db", exp.to_identifier(_RAW))
        with suppress(duckdb.Error, SqlglotError):
            self.laboratory.base.execute(tree.sql("duckdb"))
        self._changes += 1

    def _query(self, tree: exp.Query) -> Iterator[tuple[str, Outcome]]:
        """A query over tables alone that hasn't been run on their rows."""
        try:
            made = self._with_views(tree.copy())
            _name_columns(made, [])
            if made.args.get("order") and not (made.args.get("limit") or made.args.get("offset")):
                made.set("order", None)
            read = self._as_streams(made)
            if any(isinstance(each.parent, exp.Array) for each in made.find_all(exp.Query)):
                return  # ARRAY(SELECT …) is none of Spark's
            text = made.sql("spark")
        except (SqlglotError, duckdb.Error):
            return
        if read and (text, self._changes) not in self._done:
            self._done.add((text, self._changes))
            yield text, self._outcome(text, read)

    def _with_views(self, tree: exp.Query) -> exp.Query:
        ctes = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            view = self._views.get(table.name.lower())
            if view is not None and table.name.lower() not in ctes:
                below = exp.Subquery(this=self._with_views(view.copy()), alias=_alias(table))
                below.set("joins", table.args.get("joins"))
                table.replace(below)
        return tree

    def _as_streams(self, tree: exp.Query) -> set[str]:
        """Has a query read its tables as streams, and makes their rows; these tables. None: it reads something else, too."""
        ctes = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        tables = [table for table in tree.find_all(exp.Table) if table.name.lower() not in ctes]
        read = {table.name.lower() for table in tables}
        if not read <= self._tables:
            return set()
        base, rows = self.laboratory.base, 0
        columns = {}
        for name in read:
            place = "row_number() over ()"
            base.execute(
                f"create or replace table {name}__pieces as select *, timestamp '2020-01-01' + interval ({place}) second "
                f"as {_TIME}, ({place} * 2654435761) % {_CUTS} as piece__ from {_RAW}.{name}"
            )
            base.execute(f"create or replace view {name} as select * exclude (piece__) from {name}__pieces")
            described = base.execute(f"describe {_RAW}.{name}").fetchall()
            columns[name] = [exp.column(each, quoted=True) for each, *_ in described]
            ((found,),) = base.execute(f"select count(*) from {name}").fetchall()
            rows += found
        for table in tables:
            stream = exp.Select(expressions=columns[table.name.lower()]).from_(table.name.lower())
            stream.set("hint", exp.Hint(expressions=[exp.Var(this="STREAM")]))
            below = exp.Subquery(this=stream, alias=_alias(table))
            below.set("joins", table.args.get("joins"))
            table.replace(below)
        return read if rows else set()

    def _outcome(self, text: str, read: set[str]) -> Outcome:
        known = {name: RelationInfo(event_time=_TIME) for name in read}
        try:
            with _within(self.seconds):
                plan = streaming.plan_model(_NODE, text, known, self.laboratory.ask)
                program = streaming.model_program(_NODE, plan)
                found = self._batch(text) or self.laboratory.stream(
                    text, program, _CUTS, timedelta(minutes=1)
                )
                if found.kind == DIFFERENT and self._depends_on_order(text, read):
                    return Outcome(NO_BATCH, "other rows where these come in another order")
                return found
        except QueryError as refusal:
            if _NO_STATE in str(refusal):
                return Outcome(NO_BATCH, "row by row")
            return self._batch(text) or Outcome(REFUSED, str(refusal))
        except TimeoutError:
            return Outcome(NO_BATCH, "slow")
        except Exception as problem:
            return Outcome(CRASHED, f"{type(problem).__name__}: {problem}")

    def _depends_on_order(self, text: str, read: set[str]) -> bool:
        """Whether a query gives other rows in batch once those it reads stand in another order."""
        base = self.laboratory.base
        found = []
        for order in (_TIME, f"{_TIME} desc", f"hash({_TIME})"):
            for name in read:
                rows = f"select * exclude (piece__) from {name}__pieces order by {order}"
                base.execute(f"create or replace view {name} as {rows}")
            found.append(rows_of(base.execute(translated(text)).fetchall()))
        return any(compare(found[0], each) for each in found[1:])

    def _batch(self, text: str) -> Outcome | None:
        """Why a query has no rows in batch to compare with; None: it has."""
        try:
            found = self.laboratory.base.execute(translated(text))
        except (duckdb.Error, SqlglotError) as problem:
            return Outcome(NO_BATCH, str(problem))
        names = [each[0].lower() for each in found.description]
        return Outcome(NO_BATCH, "columns of one name") if len({*names}) < len(names) else None


def statements(text: str) -> Iterator[str]:
    """The statements and queries of a file.

    >>> list(statements("# about\\nstatement ok\\ncreate table t (a int)\\n\\nquery I\\nselect 1\\n----\\n1\\n\\nhalt\\n"))
    ['create table t (a int)', 'select 1']
    """
    for block in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*$", "", text)):
        head, _, body = block.strip().partition("\n")
        if re.match(r"statement (ok|count)|query", head):
            yield body.partition("\n----")[0].strip().rstrip(";")


def _alias(table: exp.Table) -> exp.TableAlias:
    given = table.args.get("alias")
    return given.copy() if given is not None else exp.TableAlias(this=exp.to_identifier(table.name))


def _name_columns(query: exp.Expr, names: list[str]) -> None:
    """Gives the columns of a query's result names, those given or such as PostgreSQL would give, each another."""
    query = query.unnest()
    while isinstance(query, exp.SetOperation):
        query = query.this.unnest()
    taken: set[str] = set()
    for place, item in enumerate(query.expressions if isinstance(query, exp.Select) else ()):
        if isinstance(item, exp.Star | exp.Aliases) or (isinstance(item, exp.Column) and item.is_star):
            continue
        called = type(item).__name__.lower() if isinstance(item, exp.Func) else f"c{place}"
        own = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else called
        name = names[place] if place < len(names) else own
        if name.lower() in taken:
            name = f"{name}_{place}"
        taken.add(name.lower())
        if name != item.alias_or_name or not isinstance(item, exp.Alias | exp.Column):
            item.replace(exp.alias_(item.unalias().copy(), name, quoted=True))


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def main() -> None:
    """Run all, print what isn't equal and the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--dialect", default="duckdb", help="sqlglot's name of it")
    parser.add_argument("--seconds", type=int, default=30, help="a query may take")
    parser.add_argument("--log", help="a file that gets a line per query")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    kinds = (".slt", ".test", ".part")
    files = [
        each for path in options.paths for each in ([path] if path.is_file() else sorted(path.rglob("*")))
    ]
    for path in files:
        if path.suffix not in kinds:
            continue
        test = LogicTest(Laboratory(), options.dialect, options.seconds)
        for text, found in test.run(path.read_text(errors="replace")):
            outcomes[found.kind] += 1
            if found.kind not in (EQUAL, NO_BATCH):
                print(f"{found.kind}: {path}\n  {text}\n  {found.detail}", flush=True)
            if options.log:
                line = {"file": str(path), "query": text, "kind": found.kind, "detail": found.detail}
                with Path(options.log).open("a") as log:
                    log.write(json.dumps(line) + "\n")
    for kind, count in outcomes.most_common():
        print(f"{count:6} {kind}")
    raise SystemExit(1 if outcomes[DIFFERENT] or outcomes[CRASHED] else 0)


if __name__ == "__main__":
    main()
