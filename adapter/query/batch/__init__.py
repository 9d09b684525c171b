"""A model's query in batch: of all rows, of some windows, and of rows that no longer change."""
