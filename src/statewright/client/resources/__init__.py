"""The methods of the client, one module a resource; each is written once, for both faces."""
