"""Aggregate functions and GROUP BY, and how their state is stored."""
