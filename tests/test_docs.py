"""The SQL in the guides: each query plans, with the configs it stands with, and its state is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from dbt.adapters.spark_streaming.project import as_of, stream_config, streaming
from dbt.adapters.spark_streaming.query.frontend.streams import Known
from dbt.adapters.spark_streaming.query.rewrites import rewriting
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments, windows
from tests.planned import plan_of

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER_OF_LENGTHS = {"tumble": 1, "session": 1}
KNOWN = {
    "example.flights": Known("departed_at"),
    "raw.orders": Known("ordered_at"),
    "raw.payments": Known("paid_at"),
    "example.bids": Known("bid_at"),
    "raw.customers": Known("changed_at", ("customer_id",)),
    "crm.customers": Known(lookup=True),
    "example.routes": Known(None, ("origin", "dest"), changes=True),
    "raw.rates": Known("changed_at", ("currency",)),
}
"""What the guides say of the relations in them."""


def examples() -> Iterator[Any]:
    """Every query over a window function or a stream in README and docs/."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1):
            macros = "|".join((*windows.KINDS, windows.STREAM))
            if re.search(r"\bselect\b", block) and re.search(rf"{{{{ ({macros})\(", block):
                yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


def compiled(block: str) -> tuple[str, dict[str, Any]]:
    """An example as dbt would compile it, and its config."""
    config: dict[str, Any] = {}

    def window(kind: str) -> Any:
        def macro(relation: str, time_col: str, *lengths: str, **options: Any) -> str:
            count = NUMBER_OF_LENGTHS.get(kind, 2)
            named = dict(zip(["partition_by"], lengths[count:], strict=False))
            return expansion.expand(
                relation, window_arguments.make(kind, time_col, *lengths[:count], **named, **options)
            )

        return macro

    macros = {kind: window(kind) for kind in windows.KINDS}
    text = (
        Environment()
        .from_string(block)
        .render(
            **macros,
            stream=expansion.expand_stream,
            as_of=lambda relation, time: expansion.expand_as_of(
                *as_of.make(relation, time, None, KNOWN[relation])
            ),
            config=lambda **given: config.update(given) or "",
            ref=lambda *names: f"example.{names[-1]}",
            source=lambda schema, name: f"{schema}.{name}",
            project_name="spark_streaming",
        )
    )
    return text, config


@pytest.mark.parametrize("block", list(examples()))
def test_examples_plan(block: str) -> None:
    text, config = compiled(block)
    materialized = config.setdefault("materialized", "streaming_table")
    if materialized in stream_config.MATERIALIZATIONS:
        node = {"name": "example", "config": config}
        streaming.program(node, streaming.plan(node, text, KNOWN))
    else:
        plan_of(text, KNOWN)


def test_the_guide_shows_what_the_rewrites_print() -> None:
    blocks = iter(BLOCK.findall((ROOT / "docs" / "guides" / "rewrites.md").read_text()))
    shown = {}
    for block in blocks:
        if found := re.search(r"{% call (\w+)", block):
            shown[found[1]] = (block, next(blocks))
    assert shown.keys() == rewriting.REWRITES.keys()
    for name, (block, printed) in shown.items():

        def macro(caller: Any, name: str = name, **options: Any) -> str:
            return rewriting.rewritten(name, caller(), **options)

        text = Environment().from_string(block).render(**{name: macro}, ref=lambda table: f"shop.{table}")
        assert text.strip() == printed.strip()
