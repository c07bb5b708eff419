"""The catalog of what can be run: served graphs, and stored versions of definitions."""
