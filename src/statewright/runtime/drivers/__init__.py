"""The two drivers: they perform the effects of the core, one with plain calls, the other on an event loop."""
