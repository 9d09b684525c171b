"""Reads a query text: its streams, hints and clauses, and the kinds of its SELECTs."""
