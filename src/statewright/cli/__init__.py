"""The command line: one module a command, composed in `main`."""
