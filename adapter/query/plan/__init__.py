"""The tree of operators, and the properties of the edges between them."""
