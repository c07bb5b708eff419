"""One task: its attempts, its scope, and the functions that code inside a node may call."""
