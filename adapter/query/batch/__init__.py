"""A model's query in batch: whole, for some windows, for what is due."""
