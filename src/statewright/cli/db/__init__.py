"""`statewright db`: open, check, back up and restore the database file."""
