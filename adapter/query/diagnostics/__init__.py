"""What a message proposes: a filter in time, the nearest name of a column."""
