"""The conformance suite for checkpointers, in groups of tests."""
