"""`statewright serve` and `dev`, and the commands that administer a server: `keys`, `workspaces`, `definitions`."""
