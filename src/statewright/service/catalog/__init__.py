"""What can be run: the graphs that a project serves, and stored versions of definitions."""
