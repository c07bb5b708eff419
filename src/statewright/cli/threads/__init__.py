"""`statewright threads`: inspect saved threads and change them, directly in the database."""
