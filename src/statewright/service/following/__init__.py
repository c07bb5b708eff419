"""Following runs: a hub for events of this process, and a poll for changes by other processes."""
