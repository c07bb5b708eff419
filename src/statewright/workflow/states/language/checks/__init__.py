"""Checks beyond the types of values: references, transitions, expressions and templates, and reachability."""
