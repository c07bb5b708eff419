"""Recordings of model calls, replayed in tests without an API key or a network."""
