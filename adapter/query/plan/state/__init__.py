"""State of operators: stored rows, groups, slices and sessions, as SQL over the state table."""
