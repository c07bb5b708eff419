"""`statewright db`: check, back up, restore and shrink the database file; and opening it for other commands."""
