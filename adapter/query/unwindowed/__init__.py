"""Queries over whole streams, without windows: groups, rankings and joins that are kept up to date."""
