"""`statewright chat`: a conversation with an agent, a network, a graph or a workflow in the terminal."""
