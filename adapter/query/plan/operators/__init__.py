"""The operators, each with its relation, its state and its micro-batch SQL."""
