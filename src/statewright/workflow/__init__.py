"""Workflows written as data (YAML states or JSON steps), compiled to graphs that the runtime runs like any other."""
