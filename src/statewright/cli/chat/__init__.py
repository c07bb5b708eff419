"""`statewright chat`: a conversation in the terminal with an agent, a network, a graph or a workflow."""
