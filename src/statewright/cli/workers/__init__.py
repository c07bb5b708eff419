"""`statewright worker`, `workers` and `queues`: advance runs without HTTP, and manage workers and queues."""
