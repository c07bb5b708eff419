"""Threads in a SQLite file: commits, history, segments of old checkpoints, and pruning."""
