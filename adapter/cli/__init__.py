"""The command line, `dbt-stream`."""
