"""The cases of the Flink oracle: where they are, and the configs they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# In a folder beside the repository, where the continuous integration has it too.
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "oracle"
ORACLE: Path | None = _BESIDE if (_BESIDE / "cases").is_dir() else None
NO_ORACLE = "the Flink oracle is not beside this repository (../shared/oracle)"

# What bounds the state of a query without windows.
CONFIGS: dict[str, dict[str, Any]] = {
    "dedup_unbounded_first": {"state_ttl": "30 days"},
    "distinct_split": {"constant_domains": ["city"]},
    "enum_distinct": {"constant_domains": ["page"]},
    "global_topn": {"constant_domains": ["product_id"]},
    "group_topn": {"constant_domains": ["category", "product_id"]},
    "group_topn_raw": {"constant_domains": ["category"]},
    "nexmark_q16": {"constant_domains": ["channel", "day"]},
    "nexmark_q18": {"state_ttl": "30 days"},
    "nexmark_q20": {"state_ttl": "30 days"},
    "unbounded_distinct": {"state_ttl": "30 days"},
}


def case_names() -> list[str]:
    """All cases that are there, by name."""
    return sorted(path.stem for path in (ORACLE / "cases").glob("*.sql")) if ORACLE else []
