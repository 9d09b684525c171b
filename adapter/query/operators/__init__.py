"""Incremental operators: a query as a tree whose edges carry what changed in a micro-batch."""
