"""Sources of a stream: initial offsets, schemas, readers, and checks that the stream can continue."""
