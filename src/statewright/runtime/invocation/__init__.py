"""The data of one invocation of a graph: its options and services, its state, its outcomes and its events."""
