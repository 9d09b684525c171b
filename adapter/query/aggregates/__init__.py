"""Aggregate functions, and what a state keeps for them."""
