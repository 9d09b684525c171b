"""A script of Flink SQL, translated and run by `dbt build`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.spark_streaming.cli.commands import main

SCRIPT = """
CREATE TABLE spent (account BIGINT, cents BIGINT, place STRING, at TIMESTAMP(3), p AS PROCTIME(),
    WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/spent', 'format' = 'json');
CREATE TABLE places (name STRING, city STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/places', 'format' = 'json');
CREATE TABLE owners (account BIGINT, owner STRING, since TIMESTAMP(3), WATERMARK FOR since AS since);
INSERT INTO owners VALUES (1, 'Ann', TIMESTAMP '2024-01-01 00:00:00'), (2, 'Bob', TIMESTAMP '2024-01-01 00:00:00');
CREATE VIEW large AS SELECT * FROM spent WHERE cents >= 10;
CREATE TABLE hourly (account BIGINT, `hour` TIMESTAMP(3), total BIGINT, mean BIGINT) WITH ('connector' = 'print');
INSERT INTO hourly SELECT account, TUMBLE_START(at, INTERVAL '1' HOUR), SUM(cents), AVG(cents)
FROM large GROUP BY account, TUMBLE(at, INTERVAL '1' HOUR);
CREATE TABLE totals (account BIGINT, total BIGINT, PRIMARY KEY (account) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT account, SUM(cents) FROM large GROUP BY account;
CREATE TABLE named (city STRING, part STRING, owner STRING) WITH ('connector' = 'print');
INSERT INTO named SELECT c.city, SPLIT_INDEX(s.place, '|', 1), o.owner
FROM spent AS s JOIN places FOR SYSTEM_TIME AS OF s.p AS c ON c.name = SPLIT_INDEX(s.place, '|', 0)
JOIN owners AS o ON o.account = s.account;
SELECT * FROM spent MATCH_RECOGNIZE (ORDER BY at MEASURES A.cents AS c PATTERN (A) DEFINE A AS A.cents > 1);
"""
SPENT = [
    (1, 5, "a|x", "2024-01-01 00:01:00"),
    (1, 10, "a|x", "2024-01-01 00:02:00"),
    (1, 15, "a|y", "2024-01-01 00:03:00"),
    (2, 40, "b", "2024-01-01 00:04:00"),
    (1, 50, "b|z", "2024-01-01 01:30:00"),
]


@pytest.mark.thorough
class TestATranslatedScript:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("flink")
        for name in ("spent", "places"):
            (folder / name).mkdir()
        rows = [dict(zip(("account", "cents", "place", "at"), row, strict=True)) for row in SPENT]
        (folder / "spent" / "rows.json").write_text("\n".join(map(json.dumps, rows)))
        (folder / "places" / "rows.json").write_text(
            '{"name": "a", "city": "Aa"}\n{"name": "b", "city": "Bb"}'
        )
        (folder / "script.sql").write_text(SCRIPT.format(folder=folder))
        return folder

    def test_its_models_run(self, project: object, folder: Path) -> None:
        there = Path(str(project.project_root))  # type: ignore[attr-defined]
        runner = CliRunner()
        refused = runner.invoke(main, ["translate", str(folder / "script.sql"), str(there)])
        assert (refused.exit_code, "isn't empty" in refused.output) == (2, True)
        done = runner.invoke(main, ["translate", str(folder / "script.sql"), str(folder / "made")])
        assert done.exit_code == 0, done.output
        assert "script.sql, line 19: MATCH_RECOGNIZE isn't supported" in done.output
        for kind in ("models", "seeds"):
            for path in (folder / "made" / kind).iterdir():
                (there / kind).mkdir(exist_ok=True)
                (there / kind / path.name).write_text(path.read_text())
        run_dbt(["build"])
        query = "select {} from {}.{}"
        schema = project.test_schema  # type: ignore[attr-defined]

        def rows(columns: str, table: str) -> list[tuple[object, ...]]:
            found = project.run_sql(query.format(columns, schema, table), fetch="all")  # type: ignore[attr-defined]
            return sorted(map(tuple, found), key=str)

        assert rows("account, string(`hour`), total, mean", "hourly") == [
            (1, "2024-01-01 00:00:00", 25, 12),
            (2, "2024-01-01 00:00:00", 40, 40),
        ]
        assert rows("account, total", "totals") == [(1, 75), (2, 40)]
        assert rows("city, part, owner", "named") == sorted(
            [
                ("Aa", "x", "Ann"),
                ("Aa", "x", "Ann"),
                ("Aa", "y", "Ann"),
                ("Bb", None, "Bob"),
                ("Bb", "z", "Ann"),
            ],
            key=str,
        )
