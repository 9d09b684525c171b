"""What macros ask of the adapter, a module for each part of it."""
