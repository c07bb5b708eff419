"""Execution of runs: the worker that claims them, the attempts that advance them, and the records of their steps."""
