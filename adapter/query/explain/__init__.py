"""The tree of operators for people: as text and as JSON."""
