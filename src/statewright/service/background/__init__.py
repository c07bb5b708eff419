"""Background work: the background tasks, the loop thread that they run on, deadlines and retention."""
