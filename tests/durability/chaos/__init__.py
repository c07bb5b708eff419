"""Durability under `kill -9`: child processes run graphs, are killed at random moments, and the next child resumes.

    python -m tests.durability.chaos --kills 1000 --seed 7

The parent starts one child after the other: a separate interpreter with a `SqliteSaver` on a file. A child advances
several threads concurrently, from the state that the file has, starts new ones when all are done, and appends
everything that it does or learns to its *notes*: a line each, with O_APPEND, which counts once it is complete. The
parent kills the child with SIGKILL, reads a copy of the file in the state in which the kill left it, and compares it
with the notes of all children so far. The last child of each file runs all threads to their ends. Some threads are
forked on the way, and their branches are advanced in turn; some are copied, while they are idle or while a run
advances them.

When something is known to be saved:

- A commit with durability `sync`: before its `on_commit`, and so before the next superstep starts.
- A commit with durability `async`: at the `on_commit` of the next commit of the same branch, or when the call returns.
  So of the commits of a branch that were reported to a child, only the last one may be missing; and when superstep s
  starts, the commit of s - 2 is saved (under `sync`: that of s - 1).
- A commit with durability `exit`: before its `on_commit`, which is called only when the run is idle, or when the result
  of a step is saved.
- The result of a task, under `sync`: before its `on_task_finished`. While other tasks of the superstep run, results are
  saved in groups.
- `update_state`, `fork`, `copy_thread`, `runtime.step`, answers, and failed attempts (except under `exit`): when the
  call returns, with any durability.
- A checkpoint that a child has read: at once.

The invariants are described where they are checked, in `audit/`. The times of the kills are drawn by a seeded
generator, but their effect depends on the machine: the same seed gives a similar run, never the same.
"""
