"""`statewright runs`: start, follow and control the durable runs of a server through its HTTP API."""
