"""Queries that stay within windows: planned in stages, of slices or of rows."""
