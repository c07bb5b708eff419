"""Recording of real runs, and their replay by the current version of the graph."""
