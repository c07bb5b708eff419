"""Runs and their threads: taking a turn, beginning a run, calling subgraphs, and editing threads from outside a run."""
