"""Record real runs of a graph, and replay them with its current version."""
