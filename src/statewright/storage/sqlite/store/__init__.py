"""A store in a SQLite file, with search by meaning."""
