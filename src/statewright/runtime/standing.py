"""Whether a task may still act, and whether a run is to go on.

A task may outlive its superstep: a plain function cannot be stopped, and a node may leave threads of its own running.
What it still does must have no effect. The check looks at what this process knows; only a hold on the thread that has
lapsed by the clock is renewed before it counts, since another run may have taken the thread over meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar, cast

from statewright.checkpoint import Checkpointer, Hold, Lease, Line
from statewright.errors import Fenced, GraphDrained, RunCancelled, RunError
from statewright.promise import resolved
from statewright.runtime.run import Run
from statewright.runtime.scope import Scope

if TYPE_CHECKING:
    from statewright.runtime.superstep import Superstep

T = TypeVar("T")
SIBLING_FAILED: Final = "a task that ran beside it failed"


def end_of(scope: Scope, *, between_attempts: bool = False) -> str | None:
    """Why a task must not act any more; None while it may. Between two attempts it does not count how one ended."""
    inner: Scope | None = scope
    while inner is not None:
        run, attempt = inner.run, inner.attempt
        if between_attempts and inner is scope and attempt is not None:
            attempt = attempt.outer
        if attempt is not None and attempt.is_given_up:
            return f"the attempt at node {_node(inner)!r} was given up"
        if inner.checkpoint is not None and inner.checkpoint.step <= run.closed_step:
            return f"the superstep of node {_node(inner)!r} is over"
        if run.control is not None and run.control.cancel_reason is not None:
            return run.control.cancel_reason
        if run.hold_lost:
            return "another run has taken over its thread"
        inner = run.parent
    return None


def is_given_up(scope: Scope) -> bool:
    """Whether the attempt of a task was given up, or that of a task in whose subgraph it runs."""
    inner: Scope | None = scope
    while inner is not None:
        if inner.attempt is not None and inner.attempt.is_given_up:
            return True
        inner = inner.run.parent
    return False


def check_wanted(run: Run) -> None:
    """Raise RunCancelled if a subgraph must not save anything any more: the attempt that called it was given up.

    Another attempt may be under way by now, in the same namespace and under the same hold, which do not fence this one.
    """
    if run.parent is not None and is_given_up(run.parent):
        raise RunCancelled(f"the attempt at node {_node(run.parent)!r} was given up")


def reason_to_stop(run: Run) -> str | None:
    """Why a run must not begin another superstep; None if it may."""
    if run.control is not None and run.control.cancel_reason is not None:
        return run.control.cancel_reason
    if run.parent is None:
        return None
    above = superstep_above(run)
    return SIBLING_FAILED if above is not None and above.ending else end_of(run.parent)


def reason_to_wait_no_more(scope: Scope) -> str | None:
    """Why a task must not wait any longer for what it needs to begin; None if it may."""
    step = superstep_of(scope)
    if step is not None and step.ending:
        return SIBLING_FAILED
    return end_of(scope, between_attempts=True)


def superstep_of(scope: Scope) -> Superstep | None:
    """The innermost superstep of several tasks to which a task belongs, through whatever subgraphs."""
    inner: Scope | None = scope
    while inner is not None:
        step = inner.run.superstep
        if step is not None and step.checkpoint is inner.checkpoint:
            return step
        inner = inner.run.parent
    return None


def superstep_above(run: Run) -> Superstep | None:
    """The superstep of several tasks in which a subgraph was called."""
    return superstep_of(run.parent) if run.parent is not None else None


def is_waited_for(run: Run) -> bool:
    """Whether a graph that was cancelled, since a task beside its caller failed, may finish what cannot be stopped."""
    above = superstep_above(run)
    return above is not None and above.ending and run.parent is not None and end_of(run.parent) is None


@contextmanager
def woken_by_the_end(scope: Scope, wake: Callable[[], object]) -> Generator[None]:
    """While the block runs, call `wake` when the task must not wait any longer; at once if that is so already."""
    control, step = scope.run.control, superstep_of(scope)
    if step is None and control is None:
        yield
    elif control is None:
        with cast("Superstep", step).telling(wake):
            yield
    elif step is None:
        with control.calling(wake, scope.run.root):
            yield
    else:
        with control.calling(wake, scope.run.root), step.telling(wake):
            yield


# -- tasks that get an error because their run is over


def note_refusal(scope: Scope, error: BaseException) -> None:
    """Note that a task is about to get an error, if the reason is that its run is over. Its outcome is void then.

    The node may catch the error and return a fallback, or raise an error of its own. Neither is saved, handled, retried
    or counted: the task has not ended, and the next run executes it again.
    """
    if isinstance(error, RunCancelled | GraphDrained) and scope.task is not None and _is_due_to_run(scope, error):
        scope.run.refusals[scope.task.id] = type(error)(error.reason)


def _is_due_to_run(scope: Scope, error: RunCancelled | GraphDrained) -> bool:
    """Return whether a run around the task was stopped, rather than one that its node has called and stopped."""
    inner: Scope | None = scope
    while inner is not None:
        run = inner.run
        if isinstance(error, GraphDrained):
            if run.control is not None and run.control.drain_reason is not None:
                return True
        elif run.hold_lost or (run.control is not None and run.control.cancel_reason is not None):
            return True
        inner = run.parent
    return False


def void_if_refused(scope: Scope, outcome: T) -> T | RunError:
    """Return the outcome of an attempt, or the error that its task got because the run is over."""
    refusals = scope.run.refusals
    if (
        not refusals
        or scope.task is None
        or (isinstance(outcome, BaseException) and not isinstance(outcome, Exception))
    ):
        return outcome
    return refusals.get(scope.task.id, outcome)


def check_waits(scope: Scope) -> None:
    """Raise RunCancelled if a task must not wait for its calls any longer."""
    reason = end_of(scope)
    if reason is not None:
        raise _refused(scope, reason)


def check_not_refused(scope: Scope) -> None:
    """Raise the error that the task got because its run is over, if it got one and goes on."""
    refusal = void_if_refused(scope, None)
    if refusal is not None:
        raise refusal


# -- before a side effect


def check_open(scope: Scope, name: str) -> None:
    """Raise RunCancelled if the task must not begin the step `name` any more."""
    reason = end_of(scope)
    if reason is not None:
        raise _refused(scope, f"{reason}, so the step {name!r} of node {_node(scope)!r} was not begun")


def check_hold(scope: Scope, name: str) -> None:
    """Raise RunCancelled if the run does not hold its thread any more; a hold that has lapsed is renewed, if it can be.

    The saver is asked: another process, or `release`, may have taken the thread since the last write.
    """
    root = scope.run.root
    if root.owner is None or not root.claimed:
        return
    lease: Lease | None = resolved(_saver(root).lease(_thread(root)))
    _check_owner(scope, name, lease)
    if _has_lapsed(root):
        hold = cast(Hold, root.hold())
        try:
            resolved(_saver(root).renew(_thread(root), hold))
        except Fenced as error:
            raise _lost(scope, name) from error
        root.held_until = hold.until


async def check_hold_async(scope: Scope, name: str) -> None:
    """`check_hold`, on the running event loop."""
    root = scope.run.root
    if root.owner is None or not root.claimed:
        return
    from statewright.runtime.awaiting import answered  # loads asyncio

    lease: Lease | None = await answered(_saver(root).lease(_thread(root)))
    _check_owner(scope, name, lease)
    if _has_lapsed(root):
        hold = cast(Hold, root.hold())
        try:
            await answered(_saver(root).renew(_thread(root), hold))
        except Fenced as error:
            raise _lost(scope, name) from error
        root.held_until = hold.until


def _check_owner(scope: Scope, name: str, lease: Lease | None) -> None:
    if lease is None or lease.owner != scope.run.root.owner:
        raise _lost(scope, name)


def _has_lapsed(root: Run) -> bool:
    """Whether the hold has lapsed by the clock: a process that was stopped for longer does not know when it wakes."""
    return root.held_until is not None and root.clock.now() >= root.held_until


def _saver(root: Run) -> Checkpointer:
    return cast(Checkpointer, root.saver)


def _thread(root: Run) -> str:
    return cast(Line, root.line).thread_id


def _lost(scope: Scope, name: str) -> RunCancelled:
    scope.run.root.hold_lost = True
    return _refused(
        scope,
        f"it does not hold its thread any more: another run has taken it over, or it was released or deleted. The step "
        f"{name!r} of node {_node(scope)!r} was not begun",
    )


def _refused(scope: Scope, reason: str) -> RunCancelled:
    error = RunCancelled(reason)
    note_refusal(scope, error)
    return error


def _node(scope: Scope) -> str:
    return scope.task.node if scope.task is not None else ""
