"""The command line: one function per command, listed by name in `commands`."""
