"""How far a model has come, and the figures of its micro-batches."""
