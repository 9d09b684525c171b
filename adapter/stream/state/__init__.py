"""The state of a model: its schema, its Iceberg table, and its inspection."""
