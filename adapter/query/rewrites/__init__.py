"""Rewrites: a SELECT made into one that gives the same rows another way. Each is a function from tree to tree."""
