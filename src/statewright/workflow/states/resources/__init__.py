"""Resolution of the models and tools that a workflow names, and creation of the handlers of its states."""
