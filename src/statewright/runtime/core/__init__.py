"""The pure core: what a superstep runs, what it changes, and what has to be saved. It performs nothing itself."""
