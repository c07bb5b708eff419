"""`statewright threads`: inspect and change saved threads, directly in the database."""
