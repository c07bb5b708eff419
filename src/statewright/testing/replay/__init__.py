"""Recordings of real runs, and their replay by the current graph."""
