"""Proposals for error messages: a time filter, similar syntax."""
