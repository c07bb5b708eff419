"""Shared state of the HTTP server: the context of an application, and authentication of requests."""
