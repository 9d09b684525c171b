"""Commands for a model other than its run: restore, clone, promotion, edit, verification, backfill, clean-up."""
