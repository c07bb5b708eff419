"""The two drivers: they perform the effects of the core by plain calls or on an event loop."""
