"""Event streams: server-sent events, their encoding, and their limits."""
