"""A query text with what is known of it: streams, markers, kinds and types."""
