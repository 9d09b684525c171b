"""The tree of operators for display: as text and as JSON."""
