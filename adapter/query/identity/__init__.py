"""Fingerprints of a plan's state tables."""
