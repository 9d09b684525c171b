"""What all of the running code stands on: the model, its names, the session, errors, the lock."""
