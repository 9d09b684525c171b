"""The model's table and its changelog."""
