"""The loop of one agent: build a request, call the model, call the tools, repeat."""
