"""The tree of operators, and what is known of the edges between them."""
