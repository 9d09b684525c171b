"""Examples of the docs: the rows that a page shows are those of the query's program, micro-batch by micro-batch, on DuckDB.

    python -m tests.examples docs/guides/windows.md      # writes the rows of each result into the page

In a section of a page, blocks with a title are tables: `raw.orders` has rows of a stream (or of a table), `result` the
model's table after a micro-batch with all rows shown since the last one, and `changes` its changelog. Text after a comma
is for readers; a result "after a flush" is one. A section without rows of its own reads those shown before it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment

from dbt.adapters.spark_streaming.project import as_of, stream_node, streaming
from dbt.adapters.spark_streaming.query.batch import whole_query
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments, windows
from tests.differential import duck
from tests.differential.tree import Column, Model, Written
from tests.shown import drawn, table, text_of

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```', re.DOTALL | re.MULTILINE
)
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
READS_STREAM = re.compile(rf"{{{{ ({'|'.join((*windows.KINDS, windows.STREAM))})\(")
TABLES = re.compile(r"(result|changes)\b|\w+\.\w+(, .*)?$")
NUMBER_OF_LENGTHS = {"tumble": 1, "session": 1}
KNOWN = {
    "example.flights": RelationInfo("departed_at"),
    "raw.orders": RelationInfo("ordered_at"),
    "raw.payments": RelationInfo("paid_at"),
    "raw.page_views": RelationInfo("viewed_at"),
    "raw.readings": RelationInfo("read_at"),
    "raw.prices": RelationInfo("changed_at", ("product",)),
    "example.bids": RelationInfo("bid_at"),
    "raw.customers": RelationInfo("changed_at", ("customer_id",)),
    "crm.customers": RelationInfo(lookup=True),
    "example.routes": RelationInfo(None, ("origin", "dest"), changes=True),
    "raw.rates": RelationInfo("changed_at", ("currency",)),
}
"""What the docs say of the relations in them."""


def compiled(block: str) -> tuple[str, dict[str, Any]]:
    """An example as dbt would compile it, and its config."""
    config: dict[str, Any] = {}

    def window(kind: str) -> Any:
        def macro(relation: str, time_col: str, *lengths: str, **options: Any) -> str:
            count = NUMBER_OF_LENGTHS.get(kind, 2)
            named = dict(zip(["partition_by"], lengths[count:], strict=False))
            return expansion.expand_window(
                relation, window_arguments.make_window(kind, time_col, *lengths[:count], **named, **options)
            )

        return macro

    def versions(relation: str, time: str, key: Any = None) -> str:
        return expansion.expand_as_of(*as_of.as_of_arguments(relation, time, key, KNOWN[relation]))

    text = (
        Environment()
        .from_string(block)
        .render(
            **{kind: window(kind) for kind in windows.KINDS},
            stream=expansion.expand_stream,
            as_of=versions,
            config=lambda **given: config.update(given) or "",
            ref=lambda *names: f"example.{names[-1]}",
            source=lambda schema, name: f"{schema}.{name}",
            project_name="spark_streaming",
        )
    )
    return text, config


@dataclass
class Shown:
    """A table of a page."""

    title: str
    header: list[str]
    rows: list[list[str]]
    at: tuple[int, int]
    """Where its rows are in the page."""

    @property
    def name(self) -> str:
        return self.title.partition(",")[0]

    @property
    def is_rows_in(self) -> bool:
        return self.name not in ("result", "changes")


@dataclass
class Example:
    """A query of a page, and the tables that are shown with it."""

    name: str
    query: str
    tables: list[Shown] = field(default_factory=list)

    def results(self) -> Iterator[tuple[Shown, list[str], list[list[str]]]]:
        """Each table of results that is shown, with the header and the rows that it should have."""
        text, config = compiled(self.query)
        node = {"name": "example", "config": {"materialized": "streaming_table", **config}}
        laboratory = duck.Laboratory()
        numbers = self._put(laboratory)
        plan = streaming.plan_model(node, text, KNOWN, laboratory.ask)
        batch = whole_query.batch_sql(plan)
        described = laboratory.base.execute(f"describe {duck.translated(batch)}").fetchall()
        columns = tuple(Column(name, "") for name, *_ in described)
        stream = duck.Streamed(
            Model(Written(batch, columns)),
            streaming.model_program(node, plan),
            laboratory.base.cursor(),
            fold=True,
            delay=stream_node.stream_settings(node).watermark,
        )
        taken = 0
        for shown, number in numbers:
            if number >= taken:
                stream.take((number, number + 1))
                taken = number + 1
            if "flush" in shown.title:
                stream.flush()
            header = [column.name for column in columns]
            if shown.name == "changes":
                yield shown, ["_change_type", *header], _changes(stream)
            else:
                yield shown, header, [[text_of(value) for value in row] for row in stream.target]

    def _put(self, laboratory: duck.Laboratory) -> list[tuple[Shown, int]]:
        """Makes the tables that are shown; each result with the number of its micro-batch."""
        pieces: dict[str, list[Shown | None]] = {}
        results: list[tuple[Shown, int]] = []
        number, pending = 0, False
        for each in self.tables:
            if each.is_rows_in:
                had = pieces.setdefault(each.name, [])
                had += [None] * (number - len(had)) + [each]
                pending = True
            else:
                results.append((each, number if pending or not results else number - 1))
                number += pending
                pending = False
        for name, tables in pieces.items():
            schema = name.partition(".")[0] if "." in name else ""
            if schema:
                laboratory.base.execute(f"create schema if not exists {schema}")
            shown = [table for table in tables if table is not None]
            kinds = [_kind([row[n] for t in shown for row in t.rows]) for n in range(len(shown[0].header))]
            columns = tuple(Column(name, kind) for name, kind in zip(shown[0].header, kinds, strict=True))
            laboratory.put(
                name,
                columns,
                [[tuple(map(_value, row, kinds)) for row in (t.rows if t else [])] for t in tables],
            )
        return results


def _changes(stream: duck.Streamed) -> list[list[str]]:
    """The changelog: a row that is replaced by one of its key is an update."""
    assert stream.program.upsert is not None
    key = [stream.columns.index(name) for name in stream.program.upsert.key or ()]
    keys = [(batch, tuple(row[n] for n in key)) for row, _, batch in stream.changes]
    named = {"delete": "update_before", "insert": "update_after"}
    count = Counter(keys)
    return [
        [named[kind] if count[of] > 1 else kind, *map(text_of, row)]
        for of, (row, kind, _) in zip(keys, stream.changes, strict=True)
    ]


_KINDS = (
    ("bigint", re.compile(r"-?\d+")),
    ("double", re.compile(r"-?\d+\.\d+")),
    ("timestamp", re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?")),
    ("boolean", re.compile("true|false")),
)


def _kind(cells: Sequence[str]) -> str:
    there = [cell for cell in cells if cell != "NULL"]
    found = (kind for kind, form in _KINDS if there and all(form.fullmatch(cell) for cell in there))
    return next(found, "string")


def _value(cell: str, kind: str) -> Any:
    if cell == "NULL":
        return None
    of: Mapping[str, Any] = {
        "bigint": int,
        "double": float,
        "timestamp": datetime.fromisoformat,
        "boolean": lambda text: text == "true",
    }
    return of.get(kind, str)(cell)


def examples(page: Path) -> Iterator[Example]:
    """The examples of a page that show results."""
    text = page.read_text()
    sections = [match.start() for match in HEADING.finditer(text)] + [len(text)]
    before: dict[str, list[Shown]] = {}
    for start, end in zip([0, *sections], sections, strict=False):
        title = text[start:end].partition("\n")[0].lstrip("# ")
        tables = shown_in(text, start, end)
        blocks = (block["text"] for block in BLOCK.finditer(text, start, end) if block["language"] == "sql")
        query = next((block for block in blocks if READS_STREAM.search(block)), "")
        own = {shown.name for shown in tables}
        if query and own & {"result", "changes"}:
            borrowed = [
                t
                for name, shown in before.items()
                if name not in own and name in query_names(query)
                for t in shown
            ]
            yield Example(f"{page.relative_to(ROOT)}: {title}", query, [*borrowed, *tables])
        for name in own - {"result", "changes"}:
            before[name] = [shown for shown in tables if shown.name == name]


def query_names(query: str) -> set[str]:
    """The relations that a query reads, as the docs call them."""
    return {".".join(found) for found in re.findall(r"source\('(\w+)', '(\w+)'\)", query)} | {
        f"example.{name}" for name in re.findall(r"ref\('(\w+)'\)", query)
    }


def write(page: Path) -> None:
    """Writes the rows of each result into a page."""
    text = page.read_text()
    places = {shown.at: drawn(shown.header, shown.rows) for shown in shown_in(text) if shown.is_rows_in}
    for example in examples(page):
        for shown, header, rows in example.results():
            places[shown.at] = drawn(header, sorted(rows) if shown.name == "result" else rows)
    for (start, end), shown_rows in sorted(places.items(), reverse=True):
        text = text[:start] + shown_rows + text[end:]
    page.write_text(text)


def shown_in(text: str, start: int = 0, end: int | None = None) -> list[Shown]:
    """The tables of a page, or of a part of it."""
    return [
        Shown(block["title"], *table(block["text"]), block.span("text"))
        for block in BLOCK.finditer(text, start, len(text) if end is None else end)
        if block["title"] and block["language"] == "text" and TABLES.match(block["title"])
    ]


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write(Path(argument).resolve())
