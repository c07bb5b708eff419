"""The catalog of graphs that can be run: graphs that the project serves, and stored versions of workflows."""
