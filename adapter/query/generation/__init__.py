"""Generates the program of a tree of operators: its steps, state and signature."""
