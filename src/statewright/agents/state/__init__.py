"""The state that agents share: typed data, results and usage limits."""
