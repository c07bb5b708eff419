"""Shared by all commands: options, printing, tables, progress, error messages and exit codes."""
