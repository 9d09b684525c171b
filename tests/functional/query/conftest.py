"""Queries over a few rows."""

from tests.functional.quick import few_rows

__all__ = ["few_rows"]
