"""Networks: agents that share a state, and the router that chooses the next agent."""
