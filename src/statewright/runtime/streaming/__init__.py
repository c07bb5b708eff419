"""Reading a run while it advances: stream modes, and iteration superstep by superstep."""
