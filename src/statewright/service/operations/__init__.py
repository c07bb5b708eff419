"""The operations that callers request: start, control and read runs, and handle signals, approvals, events, threads."""
