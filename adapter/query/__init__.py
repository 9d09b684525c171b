"""Plans a model's query and generates its program. Knows sqlglot and no Spark.

A text goes through the folders in this order: `frontend` reads it, `normalize` rewrites its tree, `planner` makes the
operators of `plan`, and `generation` makes the `program` of a micro-batch. `batch` and `explain` start at a plan, too.

The entry points are `planner.plan_query.plan`, `generation.generate.generate_program`, `batch.whole_query.batch_text` and
`explain.build.build_tree`.
"""
