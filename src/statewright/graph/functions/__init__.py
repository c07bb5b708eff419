"""The functions of nodes: their parameters and hints, and Runnables."""
