"""Following of runs: the hub for events of this process, and the poll for changes by others."""
