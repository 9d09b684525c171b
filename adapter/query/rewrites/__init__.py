"""Rewrites: functions that turn a SELECT into another one with the same rows."""
