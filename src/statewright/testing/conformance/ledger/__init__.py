"""The conformance suite for ledgers, in groups of tests."""
