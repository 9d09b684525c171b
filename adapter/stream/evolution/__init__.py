"""Evolution of existing tables when a query or a schema has changed."""
