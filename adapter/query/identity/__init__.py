"""What makes two plans the same: lineage, fingerprints, signatures."""
