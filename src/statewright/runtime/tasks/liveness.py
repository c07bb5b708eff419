"""Check whether a task may still act, and whether a run may continue.

The code of a task may outlive its superstep: a plain function cannot be stopped, and a node may leave OS threads
running.
Later actions of such code must have no effect. So two conditions are checked before each side effect. The run must not
be over, which this process knows. And the run must still hold its thread, which only the saver knows, because another
process may have taken the thread over.

If a condition does not hold, the task receives an exception, called a *refusal*. A node may catch it and return a
fallback. The fallback must not become the result of the task, because the next run will execute the task again. So
`note_refusal` records refusals, and `override_if_refused` puts them in place of the outcome of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Final, TypeVar, cast

from statewright.checkpoint import BranchKey, Checkpointer, Lease, LeaseRequest
from statewright.errors import GraphDrained, LeaseLost, RunCancelled, RunError
from statewright.futures import MaybeFuture, resolve
from statewright.runtime.invocation.run import CallingTask, OpenSuperstep, Run

T = TypeVar("T")
SIBLING_FAILED: Final = "a concurrent task failed"
_REFUSALS: Final = (RunCancelled, GraphDrained, LeaseLost)
"""The errors that a task receives because its run is over."""


def reason_to_refuse(scope: CallingTask, *, between_attempts: bool = False) -> str | None:
    """Return the reason why a task may no longer act; None if it may act.

    With `between_attempts`, the task is waiting for its next attempt, so it is not refused because its previous attempt
    has ended.
    """
    current: CallingTask | None = scope
    while current is not None:
        run, attempt = current.run, current.attempt
        if between_attempts and current is scope and attempt is not None:
            attempt = attempt.outer
        if attempt is not None and attempt.is_over_for(current.task):
            return f"the attempt at node {_node(current)!r} was abandoned"
        if _has_superstep_ended(current):
            return f"the superstep of node {_node(current)!r} has ended"
        if run.control is not None and run.control.cancel_reason is not None:
            return run.control.cancel_reason
        if run.has_lost_thread:
            return "another run has taken over its thread"
        current = run.parent
    return None


def _has_superstep_ended(scope: CallingTask) -> bool:
    """Return whether the superstep of a task has ended."""
    return scope.checkpoint is not None and scope.checkpoint.step <= scope.run.closed_step


def check_not_abandoned(run: Run) -> None:
    """Raise RunCancelled if this is the run of a subgraph, and the attempt that has called it was abandoned.

    Such a run must not save. The saver would accept its writes, because the next attempt uses the same namespace and
    the same lease.
    """
    if run.parent is not None and run.parent.abandoned:
        raise RunCancelled(f"the attempt at node {_node(run.parent)!r} was abandoned")


def reason_to_stop(run: Run) -> str | None:
    """Return the reason why a run must not start another superstep; None if it may."""
    if run.control is not None and run.control.cancel_reason is not None:
        return run.control.cancel_reason
    if run.parent is None:
        return None
    outer = calling_superstep(run)
    return SIBLING_FAILED if outer is not None and outer.ending else reason_to_refuse(run.parent)


def reason_to_stop_waiting(scope: CallingTask) -> str | None:
    """Return the reason why a task must stop waiting for a slot or its next attempt; None if it may wait."""
    superstep = innermost_superstep(scope)
    if superstep is not None and superstep.ending:
        return SIBLING_FAILED
    return reason_to_refuse(scope, between_attempts=True)


def innermost_superstep(scope: CallingTask) -> OpenSuperstep | None:
    """Return the innermost superstep that has several tasks and contains this task, directly or through subgraph calls.

    Return None if the task and all of its callers run alone in their supersteps.
    """
    current: CallingTask | None = scope
    while current is not None:
        superstep = current.run.superstep
        if superstep is not None and superstep.checkpoint is current.checkpoint:
            return superstep
        current = current.run.parent
    return None


def calling_superstep(run: Run) -> OpenSuperstep | None:
    """Return the innermost superstep that has several tasks and contains the call of this run.

    Return None for a root run, and if all callers run alone in their supersteps.
    """
    return innermost_superstep(run.parent) if run.parent is not None else None


def may_finish_functions(run: Run) -> bool:
    """Return True if a subgraph ends only because a sibling of its caller has failed.

    Then its plain functions that are running may finish.
    """
    outer = calling_superstep(run)
    return outer is not None and outer.ending and run.parent is not None and reason_to_refuse(run.parent) is None


@contextmanager
def wake_at_end(scope: CallingTask, wake: Callable[[], object]) -> Generator[None]:
    """During the block, call `wake` when the task may have to stop waiting, or at once if it already has to."""
    control, superstep = scope.run.control, innermost_superstep(scope)
    with (
        control.on_cancel(wake, scope.run.root) if control is not None else nullcontext(),
        superstep.on_end(wake) if superstep is not None else nullcontext(),
    ):
        yield


# -- tasks that receive an error because their run is over


def note_refusal(scope: CallingTask, error: BaseException, run: Run | None = None) -> None:
    """Record that a task receives `error` because its run is over. Other errors are not recorded.

    The node may catch the error and return a fallback, or raise another error. Neither becomes the outcome of the task,
    because the next run executes the task again. `run` is the run in which the error was raised, by default the run of
    `scope`. They differ if `scope` belongs to a `@task` call that a later run took over (`Call.take_over`) before the
    error was recorded.
    """
    if isinstance(error, _REFUSALS) and scope.task is not None and _is_over(scope, error, run or scope.run):
        reason = str(error) if isinstance(error, LeaseLost) else error.reason
        scope.refusals[scope.task.id] = (GraphDrained if isinstance(error, GraphDrained) else RunCancelled)(reason)


def _is_over(scope: CallingTask, error: RunCancelled | GraphDrained | LeaseLost, run: Run) -> bool:
    """Return True if an error was raised because `run`, or a run around it, is over.

    Return False if it has another cause: the node may itself have started a run and stopped it.
    """
    if isinstance(error, LeaseLost):
        branch_key = run.root.branch_key
        return branch_key is not None and branch_key.thread_id == error.thread_id
    if run is not scope.run:
        return True
    # Only a `@task` call has refusals of its own. It is also over once its superstep has ended. That is not checked for
    # other tasks: their late outcomes are ignored anyway, and their scope may already belong to the next task.
    is_call = scope.refusals is not run.refusals
    current: CallingTask | None = scope
    while current is not None:
        control = current.run.control
        if isinstance(error, GraphDrained):
            if control is not None and control.drain_reason is not None:
                return True
        elif (
            current.run.has_lost_thread
            or (control is not None and control.cancel_reason is not None)
            or ((is_call or current is not scope) and _has_superstep_ended(current))
        ):
            return True
        current = current.run.parent
    return False


def override_if_refused(scope: CallingTask, outcome: T) -> T | RunError:
    """Return the outcome of an attempt. If the task has received a refusal, return that error instead."""
    refusals = scope.refusals
    if (
        not refusals
        or scope.task is None
        or (isinstance(outcome, BaseException) and not isinstance(outcome, Exception))
    ):
        return outcome
    return refusals.get(scope.task.id, outcome)


def check_may_wait(scope: CallingTask) -> None:
    """Raise RunCancelled if a task must no longer wait for its `@task` calls."""
    run, reason = scope.run, reason_to_refuse(scope)
    if reason is not None:
        raise _refusal(scope, reason, run)


def check_not_refused(scope: CallingTask) -> None:
    """Raise the refusal that the task has received, if any. In that case the node has caught it and continues."""
    refusal = override_if_refused(scope, None)
    if refusal is not None:
        raise refusal


# -- before a side effect


def check_may_start(scope: CallingTask, name: str) -> None:
    """Raise RunCancelled if the task must not start the step `name`."""
    run, reason = scope.run, reason_to_refuse(scope)
    if reason is not None:
        raise _refusal(scope, f"{reason}, so the step {name!r} of node {_node(scope)!r} was not started", run)


def check_holds_thread(scope: CallingTask, name: str) -> None:
    """Raise RunCancelled if the run no longer holds its thread, in which case the step `name` must not start.

    The saver is asked, because another process or `release` may have ended the lease since the last write. An expired
    lease is renewed if possible.
    """
    root = scope.run.root
    if root.holds_thread:
        try:
            lease = resolve(_current_lease(root))
        except LeaseLost as error:
            raise _lost_thread_error(scope, name, root) from error
        _check_lease(scope, name, root, lease)


async def check_holds_thread_async(scope: CallingTask, name: str) -> None:
    """Do the same as `check_holds_thread` on the running event loop."""
    root = scope.run.root
    if root.holds_thread:
        from statewright.async_futures import aresolve  # loads asyncio

        try:
            lease = await aresolve(_current_lease(root))
        except LeaseLost as error:
            raise _lost_thread_error(scope, name, root) from error
        _check_lease(scope, name, root, lease)


def _current_lease(root: Run) -> MaybeFuture[Lease | None]:
    """Return the current lease on a run's thread, or a future of it.

    If the lease has expired, it is renewed first: the process may have been suspended for a while.
    """
    saver, thread_id = cast(Checkpointer, root.saver), cast(BranchKey, root.branch_key).thread_id
    if root.lease_expires_at is not None and root.ports.clock.now() >= root.lease_expires_at:
        return saver.renew(thread_id, cast(LeaseRequest, root.lease_request(root.ports.clock.now())))
    return saver.lease(thread_id)


def _check_lease(scope: CallingTask, name: str, root: Run, lease: Lease | None) -> None:
    """Raise RunCancelled if the lease does not belong to the root run."""
    if lease is None or lease.owner != root.owner:
        raise _lost_thread_error(scope, name, root)
    root.lease_expires_at = lease.until


def _lost_thread_error(scope: CallingTask, name: str, root: Run) -> RunCancelled:
    """Record that the root run has lost its thread, and return the error for the step `name`."""
    root.has_lost_thread = True
    return _refusal(
        scope,
        f"the run no longer holds its thread, which was taken over, released or deleted, so the step {name!r} of node "
        f"{_node(scope)!r} was not started",
        root,
    )


def _refusal(scope: CallingTask, reason: str, run: Run) -> RunCancelled:
    """Return the error for a task whose run is over, and record it as a refusal."""
    error = RunCancelled(reason)
    note_refusal(scope, error, run)
    return error


def _node(scope: CallingTask) -> str:
    return scope.task.node if scope.task is not None else ""
