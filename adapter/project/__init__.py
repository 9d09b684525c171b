"""Converts nodes and configs of a dbt project to the inputs of `query/` and `stream/`."""
