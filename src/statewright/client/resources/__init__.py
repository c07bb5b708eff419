"""The resources of both clients, with their methods."""
