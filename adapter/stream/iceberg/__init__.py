"""Iceberg tables: commits, snapshots and maintenance."""
