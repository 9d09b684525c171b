"""What an edited query, or another schema, means for the tables that are there."""
