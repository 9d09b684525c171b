"""State and micro-batch SQL of each operator."""
