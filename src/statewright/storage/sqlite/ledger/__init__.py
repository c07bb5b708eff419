"""The records of runs in a SQLite file."""
