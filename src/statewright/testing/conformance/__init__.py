"""Conformance suites: tests that every adapter to a port must pass."""
