"""Plans a normalized query as a tree of operators."""
