"""Workflows written as data: compiled to graphs, and run by nothing else."""
