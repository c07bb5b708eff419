"""What all commands share: options, printing, tables, progress, error messages and exit codes."""
