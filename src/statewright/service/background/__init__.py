"""Background work: the thread of the service, and its recurring tasks, such as deadlines and retention."""
