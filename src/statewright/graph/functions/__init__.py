"""The functions of nodes: their parameters and type hints, and Runnables that are used as functions."""
