"""Micro-batches: ingestion, look-ups, state updates and output."""
