"""The state table: its schema, its rows, and how people look at them."""
