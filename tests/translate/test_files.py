"""The files that dbt needs."""

from __future__ import annotations

import yaml

from dbt.adapters.spark_streaming.translate.project import translate


def test_a_project_that_dbt_reads() -> None:
    made = translate(
        "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 'a'); INSERT INTO s SELECT id FROM t;",
        "shop",
    )
    assert yaml.safe_load(made.files["dbt_project.yml"]) == {
        "name": "shop",
        "version": "1.0.0",
        "profile": "shop",
    }
    output = yaml.safe_load(made.files["profiles.yml"])["shop"]["outputs"]["dev"]
    assert output["type"] == "spark_streaming"
    assert output["packages"] == ["kafka"]
    assert ".spark/" in made.files[".gitignore"]
    assert [path for path in made.files if path.endswith(".sql")] == ["models/s.sql"]
