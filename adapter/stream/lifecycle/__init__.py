"""Commands on a model besides its run: savepoints, clones, promotion, edits, verification, clean-up."""
