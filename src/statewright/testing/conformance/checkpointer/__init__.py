"""Tests that every checkpointer passes."""
