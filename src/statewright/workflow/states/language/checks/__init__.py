"""Checks beyond the types of keys: references, transitions, expressions and templates, reachability."""
