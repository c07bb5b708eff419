"""Conformance suites: the tests that every adapter to a port must pass."""
