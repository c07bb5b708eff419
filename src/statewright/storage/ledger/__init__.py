"""The records of runs in a database."""
