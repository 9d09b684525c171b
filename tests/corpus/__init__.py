"""The corpus: queries that plan, differential, Spark, evolution and kill tests read. `entries` lists all, with tags."""
