"""Execution of a workflow: states as graph nodes, tokens on transitions, visits, and the views derived from them."""
