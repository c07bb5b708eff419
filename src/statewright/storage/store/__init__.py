"""A store in a database, with semantic search."""
