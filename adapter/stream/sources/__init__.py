"""What a stream reads: its first offsets, its schemas, and checks that it can go on."""
