"""A process that runs `workloads.py` on Apache Flink for `compare.py`.

It is given PyFlink, and not this project, so all it knows comes with the requests: `protocol.py` says how it is spoken
to. Flink runs in this process's JVM, with two slots; a job is a cluster of its own.

    python bench/flink_peer.py '{"jars": [...], "settings": {...}}'
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from protocol import serve
from pyflink.table import EnvironmentSettings, TableEnvironment

# Two readers take files in any order. So the watermark waits for the last of them, which is less than a day later.
SOURCE = """
create temporary table {name} ({columns}, watermark for ts as ts - {delay})
with ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet'{more})
"""
FILES = "'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'parquet'"
MONITORED = ", 'source.monitor-interval' = '50 ms'"


class FlinkPeer:
    """One job at a time."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.insert = ""
        # What a start comes to is told when it can run a job.
        tables = self.environment({})
        tables.execute_sql("create temporary table nothing (x int) with ('connector' = 'blackhole')")
        tables.execute_sql("insert into nothing values 1").wait()

    def environment(self, settings: dict[str, str]) -> Any:
        """One that knows no tables."""
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        config = tables.get_config()
        config.set("pipeline.jars", ";".join(f"file://{jar}" for jar in self.given["jars"]))
        config.set("table.local-time-zone", "UTC")
        for name, value in {**self.given["settings"], **settings}.items():
            config.set(name, value)
        return tables

    def tables(
        self,
        sources: dict[str, str],
        folders: dict[str, str],
        delay: str,
        more: str,
        settings: dict[str, str],
    ) -> None:
        """Makes the sources."""
        self.session = self.environment(settings)
        for name, schema in sources.items():
            columns = schema.replace(" timestamp", " timestamp(3)")
            ddl = SOURCE.format(name=name, columns=columns, path=folders[name], delay=delay, more=more)
            self.session.execute_sql(ddl)

    def sink(self, query: str, connector: str) -> None:
        """Makes a sink for a query."""
        resolved = self.session.sql_query(query)._j_table.getResolvedSchema().getColumns()
        columns = ", ".join(
            f"`{each.getName()}` {each.getDataType().getLogicalType().asSerializableString()}"
            for each in resolved
        )
        columns = re.sub(r" NOT NULL", "", columns)
        self.session.execute_sql(f"create temporary table target ({columns}) with ({connector})")
        self.insert = f"insert into target {query}"

    def prepare(
        self, sources: dict[str, str], folders: dict[str, str], query: str, updates: bool, path: str
    ) -> None:
        """Tables for a query over all files; its rows, or what became of them, go into files."""
        self.tables(sources, folders, "interval '1' day", "", {})
        if updates:
            self.session.execute_sql(f"create temporary view answer as {query}")
            query = "select * from to_changelog(input => table answer)"
        self.sink(query, FILES.format(path=path))

    def run(self) -> None:
        """What was prepared."""
        self.session.execute_sql(self.insert).wait()

    def begin(self, sources: dict[str, str], folders: dict[str, str], query: str, delay: int) -> list[str]:
        """A query over files that come; its rows are printed. The names of their columns."""
        # One reader, which has them nearly in order; nothing waits for more rows to come.
        settings = {"parallelism.default": "1", "table.exec.mini-batch.enabled": "false"}
        late = f"interval '{delay // 60}:{delay % 60:02}' minute to second"
        self.tables(sources, folders, late, MONITORED, settings)
        self.sink(query, "'connector' = 'print'")
        self.job = self.session.execute_sql(self.insert)
        return list(self.session.sql_query(query).get_schema().get_field_names())

    def end(self) -> None:
        """No more files will come."""
        self.job.get_job_client().cancel().result()


def main() -> None:
    """Serve."""
    peer = FlinkPeer(json.loads(sys.argv[1]))
    serve({name: getattr(peer, name) for name in ("prepare", "run", "begin", "end")})


if __name__ == "__main__":
    main()
