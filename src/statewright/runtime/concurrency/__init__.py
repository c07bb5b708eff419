"""Worker threads, private event loops, and the handle by which a run is asked to stop."""
