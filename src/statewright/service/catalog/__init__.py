"""The catalog of graphs that can be run: served ones, and stored versions of definitions."""
