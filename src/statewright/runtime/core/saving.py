"""Write to the thread of a run: commits of supersteps, and partial results of a superstep that is not complete.

Each write contains the lease request of the run, so it also extends the lease on the thread, and the last write
releases the thread. With durability="exit", commits are postponed: `Run.uncommitted_from` is the last checkpoint that
was saved, and when the run stops, `save_uncommitted` saves everything since then as one commit.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal

from statewright.checkpoint import Checkpoint, Pending, Source, Task, TaskResult
from statewright.events import Log
from statewright.ids import CheckpointId
from statewright.runtime.core.commit import StepCommit, finished_entries, interrupted_entries, started_entries
from statewright.runtime.core.effects import Effect, Emit, Save, SaveCallers, SavePending, Stamp
from statewright.runtime.core.events import run_event
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run

NOTHING_SAVED: Final = Checkpoint("", -1, {}, ())
"""The value of `Run.uncommitted_from` if nothing has been saved yet."""
NO_TIME: Final = datetime.min.replace(tzinfo=UTC)
"""The time of commits that are not saved."""


def new_id_and_time(run: Run, step: int) -> Generator[Effect, Any, tuple[str, datetime]]:
    """Return a new id and the time for the commit of a step. Without a saver, the time is NO_TIME: nothing uses it."""
    if run.saver is None:
        return run.unsaved_id(step), NO_TIME
    return (yield Stamp(step))


def commit_of(
    run: Run,
    before: Checkpoint | None,
    after: Checkpoint,
    results: Sequence[TaskResult],
    now: datetime,
    *,
    source: Source = "loop",
    expected: CheckpointId | Literal["before"] | None = "before",
    pending: Pending | None = None,
    metadata: dict[str, Any] | None = None,
    releases_thread: bool = False,
) -> StepCommit:
    """Return the commit of one superstep, from the checkpoint `before` to `after`, made at `now`.

    The saver refuses the commit unless `expected` is the id of the branch's head, or None for a branch without a
    checkpoint; the default stands for the id of `before`. The last commit of a run releases the thread, and so does a
    commit with `releases_thread`.
    """
    commit = StepCommit(run, before, after, results, source, now)
    commit.hold = run.lease_request(
        now, release=releases_thread or (source == "loop" and after.is_complete), may_claim=True
    )
    if run.open_namespaces:
        still_open = _unfinished_calls(run, after) if run.saves_on_exit else set[str]()
        commit.dropped_namespaces, run.open_namespaces = tuple(sorted(run.open_namespaces - still_open)), still_open
    if expected != "before":
        commit.expected = expected
    commit.pending = pending
    commit.add_metadata(metadata)
    return commit


def save_commit(run: Run, commit: StepCommit) -> Generator[Effect, Any, None]:
    """Save a commit, and emit its event."""
    yield Save(commit)
    run.record_lease(commit.hold)
    if run.unpublished_events:
        run.publish_finished(commit.finished)
    if run.emitter is not None and run.emitter.wants("committed"):
        yield Emit(run_event("committed", run, commit, commit.checkpoint.step))


def save_uncommitted(run: Run, checkpoint: Checkpoint) -> Generator[Effect, Any, None]:
    """Save the supersteps since the last commit as one commit, if they were postponed (durability="exit")."""
    if run.uncommitted_from is not None and run.caller is not None:
        # Yielded before `uncommitted_from` is read, because a step of an abandoned attempt may be saving the same
        # checkpoint.
        yield SaveCallers(run.caller)
    before, run.uncommitted_from = run.uncommitted_from, None
    if before is None:
        return
    try:
        _, now = yield Stamp(checkpoint.step)
        commit = commit_of(run, before if before is not NOTHING_SAVED else None, checkpoint, [], now)
        commit.spans_supersteps, commit.rewritten = True, frozenset(run.rewritten)
        yield from save_commit(run, commit)
    except BaseException:
        run.uncommitted_from = before  # so that the end of the run tries again
        raise
    run.rewritten.clear()


def save_pending(
    run: Run, checkpoint: Checkpoint, pending: Pending, outcome: RunOutcome | None = None
) -> Generator[Effect, Any, None]:
    """Save results, questions and errors of the tasks of a checkpoint.

    With an `outcome` this is the last write of the run: it also logs the end of the run and releases the thread.
    """
    _, now = yield Stamp(checkpoint.step)
    hold = run.lease_request(now, release=outcome is not None, may_claim=True)
    entries = (*(() if run.holds_thread else started_entries(run)), *run.take_log_entries())
    if outcome is not None:
        entries = (
            *entries,
            *interrupted_entries(run, outcome.interrupts),
            *finished_entries(run, outcome.status, outcome.error),
        )
    yield SavePending(checkpoint.id, pending, hold, Log(run.run_id, now, entries) if entries else None)
    run.record_lease(hold)
    if run.unpublished_events:
        run.publish_finished(pending.completed)
        run.unpublished_events.clear()  # the others are of tasks that ended too late to be saved, and will run again


def release_thread(run: Run, outcome: RunOutcome) -> Generator[Effect, Any, None]:
    """Release the thread if the run stopped without a write and therefore still holds it."""
    if run.holds_thread and not run.nested:
        yield from save_pending(run, outcome.checkpoint, Pending(), outcome)


@contextmanager
def caused_by(error: BaseException | None) -> Generator[None]:
    """Raise errors of the block, which saves the end of a run, with the error that ended the run as their cause.

    The caller must see first that nothing was saved, but the reason why the run ended must not be lost.
    """
    try:
        yield
    except Exception as save_error:
        if error is None or save_error is error:
            raise
        raise save_error from error


# -- the namespaces of subgraph calls, which are deleted by the commit that ends the calling tasks


def call_namespaces(run: Run, tasks: Sequence[Task]) -> set[str]:
    """Return the namespaces in which an earlier run may have saved subgraph calls made by `tasks`."""
    path = f"{run.namespace}|" if run.namespace else ""
    namespaces = {f"{path}{task.node}:{task.id}" for task in tasks}
    if run.program.former_names:  # a renamed node resumes a call in the namespace with its former name
        former = run.program.former_names
        namespaces |= {f"{path}{name}:{task.id}" for task in tasks for name in former.get(task.node, ())}
    return namespaces


def _unfinished_calls(run: Run, checkpoint: Checkpoint) -> set[str]:
    """Return the open namespaces of subgraph calls whose tasks are still due, including calls with a number or key."""
    due = call_namespaces(run, checkpoint.frontier)
    prefixes = tuple(f"{namespace}:" for namespace in due)
    return {name for name in run.open_namespaces if name in due or name.startswith(prefixes)}
