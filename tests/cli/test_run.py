"""What `dbt-stream run` knows of its models before it starts Spark."""

from __future__ import annotations

from pathlib import Path

from dbt.adapters.spark_streaming.cli.project import DbtProject, Selection
from dbt.adapters.spark_streaming.cli.run import Service
from dbt.adapters.spark_streaming.service.restart_policy import RestartPolicy

FILES = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop}",
    "profiles.yml": "{shop: {target: dev, outputs: {dev: {type: spark_streaming, schema: shop}}}}",
    "seeds/shops.csv": "shop,country\nBerlin,DE\n",
    "models/sources.yml": "sources: [{name: raw, tables: [{name: orders, config: {meta: {stream: "
    "{format: json, options: {path: data}}}}}]}]",
    "models/countries.sql": "select * from {{ ref('shops') }}",
    "models/orders.sql": "{{ config(materialized='streaming_table') }} select * from {{ stream(source('raw', 'orders')) }}",
    "models/of_countries.sql": "{{ config(materialized='streaming_table') }} select o.* "
    "from {{ stream(ref('orders')) }} as o join {{ ref('countries') }} as c on c.shop = o.shop "
    "join {{ ref('shops') }} as s on s.shop = o.shop",
}


def test_models_that_read_seeds_and_other_models(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = DbtProject(tmp_path, tmp_path, None, None, None)
    manifest = project.parsed_manifest()
    nodes = project.streaming_models(Selection(), manifest)
    service = Service(
        project, manifest, nodes, project.environment(), "1 second", RestartPolicy(), fail_fast=False
    )
    streams = service._streams
    assert {name: each.upstream for name, each in streams.items()} == {
        "orders": frozenset(),
        "of_countries": frozenset({"orders"}),
    }
    assert streams["of_countries"].tables == {"shop.countries", "shop.shops"}
