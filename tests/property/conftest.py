"""Hypothesis' settings."""

from hypothesis import settings

# How long an example takes is the machine's business.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")
