"""Iceberg's tables: commits, snapshots and their maintenance."""
