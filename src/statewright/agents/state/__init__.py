"""The state that the agents of a network share: typed data, results and usage limits."""
