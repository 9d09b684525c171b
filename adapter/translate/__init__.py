"""Translates scripts of Flink SQL to a dbt project."""
