"""Foundations of the running code: the model, names of tables, the Spark session, errors."""
