"""The state that the agents of a network share: its data, the results of agent calls, and limits on their usage."""
