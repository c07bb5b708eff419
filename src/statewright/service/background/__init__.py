"""Background work: the thread of a service, its background tasks, deadlines and retention."""
