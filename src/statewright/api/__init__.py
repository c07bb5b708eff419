"""The resources of the HTTP API. Each is declared once: the client parses it, and the server encodes and documents it.

The docstrings of a class and of its fields are the descriptions in the OpenAPI document.
"""
