"""Runs of a model: start and stop, recovery, evolution of its state, savepoints."""
