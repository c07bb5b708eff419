"""Following runs: a hub for the events that this process saves, and a poll for changes by other processes."""
