"""The operations that callers request: starting, controlling and reading runs, signals, approvals, events, threads."""
