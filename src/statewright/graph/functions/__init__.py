"""The functions of nodes: their parameters and hints, Runnables, and maps over lists."""
