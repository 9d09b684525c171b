"""Runs the program of a streaming model on Spark, and keeps its state and its table. Knows no sqlglot.

`run` starts a model and recovers it. For each micro-batch, `microbatch` reads the rows of `sources`, updates the tables of
`state` and writes the rows of `sink`. `evolution` adapts existing tables to an edited query. `lifecycle` has the commands
besides a run.

The entry points are `run.runner.run_stream`, and a function of each command in `lifecycle`.
"""
