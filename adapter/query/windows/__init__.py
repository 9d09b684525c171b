"""Windowing table functions: their arguments and ranges, and when a window's rows are emitted."""
