"""The client's logic without I/O: effects, retries, pages, and event streams that are resumed."""
