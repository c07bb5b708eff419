"""Test suites for adapters: an adapter to a port passes the suite of the port."""
