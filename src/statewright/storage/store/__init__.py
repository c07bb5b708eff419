"""A store in a database, with search by meaning."""
