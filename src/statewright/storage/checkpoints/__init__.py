"""Storage of threads in a database: commits, histories, compaction of old checkpoints, and removal of checkpoints."""
