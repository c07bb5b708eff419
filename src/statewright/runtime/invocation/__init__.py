"""The data of one invocation: its options and services, its state, its outcomes and its events."""
