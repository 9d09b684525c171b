"""Rules that write a query another way, tree to tree, before it is planned."""
