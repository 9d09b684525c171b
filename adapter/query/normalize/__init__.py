"""Rewrite rules, tree to tree, that run before planning."""
