"""Each operator's state and the SQL of a micro-batch."""
