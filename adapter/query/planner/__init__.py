"""From a normalized query to the tree of operators."""
