"""Spark's SQL and its tree, as sqlglot has it: clauses, names, functions, literals."""
