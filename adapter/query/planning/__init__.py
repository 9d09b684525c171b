"""A tree of SQL → a tree of operators."""
