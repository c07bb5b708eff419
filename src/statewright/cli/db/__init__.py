"""`statewright db`: check, copy, back up, restore and shrink the database; and opening it for other commands."""
