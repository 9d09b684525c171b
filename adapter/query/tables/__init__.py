"""Tables that are no streams, in joins."""
