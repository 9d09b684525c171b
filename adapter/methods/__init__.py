"""Methods of the adapter that macros call, a module per topic."""
