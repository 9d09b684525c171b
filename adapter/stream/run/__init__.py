"""A model's run as a whole: recovery, an edited query, start and stop."""
