"""A model's position, and the metrics of its micro-batches."""
