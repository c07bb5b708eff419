"""Threads in a database: commits, history, segments of old checkpoints, and their removal."""
