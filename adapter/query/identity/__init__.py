"""Equality of plans: lineage, fingerprints, signatures."""
