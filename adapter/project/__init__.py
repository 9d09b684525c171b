"""Nodes and configs of a dbt project, made into what `query/` plans and `stream/` carries out."""
