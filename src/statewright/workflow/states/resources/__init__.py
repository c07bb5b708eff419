"""Resolution of the models, tools and handlers that the states of a workflow name."""
