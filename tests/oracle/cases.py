"""The cases of the Flink oracle: where they are, and which of them must pass by now."""

from __future__ import annotations

from pathlib import Path

# In a folder beside the repository, where the continuous integration has it too.
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "oracle"
ORACLE: Path | None = _BESIDE if (_BESIDE / "cases").is_dir() else None
NO_ORACLE = "the Flink oracle is not beside this repository (../shared/oracle)"

# These need what is not built yet. A case is taken off this list by the change that makes it pass.
LATER = {
    "dedup_unbounded_first": "deduplication without windows",
    "distinct_split": "aggregates without windows",
    "enum_distinct": "aggregates without windows",
    "global_topn": "TopN without windows",
    "group_topn": "TopN without windows",
    "group_topn_raw": "TopN without windows",
    "nexmark_q16": "aggregates without windows",
    "nexmark_q18": "deduplication without windows",
    "nexmark_q20": "joins of two streams",
    "unbounded_distinct": "aggregates without windows",
}


def case_names() -> list[str]:
    """All cases that are there, by name."""
    return sorted(path.stem for path in (ORACLE / "cases").glob("*.sql")) if ORACLE else []
