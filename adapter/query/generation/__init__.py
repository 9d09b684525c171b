"""From the tree of operators to a program: its steps, its state and its signature."""
