"""The loop of one agent: build a request, call the model, make the tool calls, repeat."""
