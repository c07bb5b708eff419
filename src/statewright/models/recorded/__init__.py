"""A model that is recorded once, and replayed in tests without a key and without a network."""
