"""The methods of the client, one module per resource, for both clients."""
