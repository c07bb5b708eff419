"""Model calls that are recorded once, and replayed in tests without an API key or a network."""
