"""Runs streaming models as a service: each is started, watched and restarted on its own."""
