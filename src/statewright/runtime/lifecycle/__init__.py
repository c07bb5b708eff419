"""Runs and their threads: taking a turn, loading, resuming, and editing a thread from outside a run."""
