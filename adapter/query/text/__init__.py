"""A model's text and its tree: Spark's dialect, names, hints, types."""
