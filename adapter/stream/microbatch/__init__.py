"""One micro-batch after the other: rows, lookups, state, results."""
