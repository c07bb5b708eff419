"""Executors of concurrent tasks, worker threads, private event loops, and the control that stops a run."""
