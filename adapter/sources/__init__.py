"""Typed values of the sources in `sources.yml` and the connections in the profile."""
