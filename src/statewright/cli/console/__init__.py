"""Output and options that all commands share: printing, tables, progress, errors and exit codes."""
