"""Shared parts of the HTTP server: the context of an application, authentication, limits, probes."""
