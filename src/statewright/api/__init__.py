"""The resources of the HTTP API, each declared once: the client parses them, the server encodes and documents them.

A class docstring and the docstrings of its fields are the descriptions in the OpenAPI document.
"""
