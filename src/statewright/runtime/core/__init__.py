"""The pure core: it decides what a superstep runs, changes and saves, and performs nothing itself."""
