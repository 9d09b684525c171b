"""The relations that kinds of queries return, derived from those that they read."""
