"""Rules about LIMIT, QUALIFY and ranking functions."""
