"""The life of a run: take its turn on the thread, advance until no task is due, release the thread.

A run decides where to begin from the checkpoint that it has loaded, and claims its thread with its first write. If the
claim is refused, no node has run yet, so the run can start over: at once if the thread has changed since it was loaded,
or, depending on `on_busy`, when another run that holds the thread has released it. The caller gets a CheckpointConflict
only if it has named the checkpoint to start from, which starting over would ignore, or if the run had already begun.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from statewright.checkpoint import Checkpoint, run_of
from statewright.errors import CheckpointConflict, GraphDrained, LeaseLost, RunCancelled, ThreadBusy
from statewright.runtime.config import STOPS_HOLDER
from statewright.runtime.core.effects import AwaitTurn, Effect, Emit, RunGenerator
from statewright.runtime.core.events import run_event, warn_unfinished, warn_unresumable
from statewright.runtime.core.loop import run_supersteps
from statewright.runtime.core.saving import NOTHING_SAVED, caused_by, release_thread, save_uncommitted
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.start import begin_run, check_input
from statewright.runtime.lifecycle.thread_lease import drop_if_stranded, is_closing
from statewright.runtime.lifecycle.thread_state import EarlierHolder, roll_back_thread
from statewright.runtime.tasks.liveness import note_refusal
from statewright.runtime.tasks.scope import Scope

T = TypeVar("T")


def run_until_idle(run: Run, graph_input: Any) -> RunGenerator:
    """Begin a run with an input, advance it until it is idle, and return its outcome. Drivers drive this generator."""
    if run.emitter is not None and run.emitter.wants("run_started"):
        yield Emit(run_event("run_started", run, graph_input))
    try:
        if run.owner is None or run.nested:
            beginning = yield from begin_run(run, graph_input)
        else:
            beginning = yield from take_turn(
                run,
                lambda: begin_run(run, graph_input),
                may_reload=run.settings.checkpoint_id is None,
                check=lambda: check_input(run, graph_input),
            )
        if isinstance(beginning, RunOutcome):  # the run was requested to stop, or unfinished work has stopped again
            outcome = beginning
        else:
            outcome = yield from run_supersteps(run, *beginning)
        with caused_by(outcome.error):
            if run.uncommitted_from is not None:
                if outcome.status == "completed" and _is_deleted_with_task(run):
                    _report_end(run, outcome.checkpoint)
                else:
                    yield from save_uncommitted(run, outcome.checkpoint)
            if run.holds_thread:
                yield from release_thread(run, outcome)
    except LeaseLost as error:
        if run.parent is not None:
            note_refusal(run.parent, error)
        if run.claim is None or not run.claim.is_released_early or run.nested:
            raise
        outcome = _stopped_outcome(run)
    if run.emitter is not None and run.emitter.wants("run_finished"):
        yield Emit(run_event("run_finished", run, outcome, outcome.checkpoint.step))
    if run.remembers and run.caller is not None:
        run.caller.run.memories[run.namespace] = outcome.checkpoint.id
    if run.unfinished_joins and outcome.status == "completed":
        warn_unfinished(run.program, run.unfinished_joins)
    if outcome.status == "waiting" and run.saver is None and not run.nested:
        warn_unresumable(run.program)
    return outcome


def _is_deleted_with_task(run: Run) -> bool:
    """Return True for a subgraph call whose checkpoints will be deleted when the calling task ends."""
    return run.caller is not None and run.namespace in run.caller.run.open_namespaces


def _report_end(run: Run, checkpoint: Checkpoint) -> None:
    """Report the end of a subgraph call to the calling run, which saves the end only if the calling task runs again."""
    caller = run.caller
    if caller is not None and not caller.abandoned:
        caller.run.ended_calls[run.namespace] = Scope(run, checkpoint=checkpoint)


def take_turn(
    run: Run,
    begin: Callable[[], Generator[Effect, Any, T]],
    *,
    may_reload: bool = True,
    check: Callable[[], object] | None = None,
) -> Generator[Effect, Any, T | RunOutcome]:
    """Perform `begin`, which loads and claims the thread, and perform it again if the claim is refused temporarily.

    Return the result of `begin`, or an outcome if the run was requested to stop while it waited. Without `may_reload`,
    CheckpointConflict is raised if the thread has changed since it was loaded. `check` raises those errors of `begin`
    that do not depend on the thread; it is called before another run is requested to stop, which would be in vain.
    """
    holder: EarlierHolder | None = None
    while True:
        try:
            if holder is not None and run.config.on_busy == "rollback":
                yield from roll_back_thread(run, holder=holder)
            return (yield from begin())
        except (ThreadBusy, CheckpointConflict) as error:
            refusal = error
        _forget_beginning(run)
        if isinstance(refusal, CheckpointConflict):
            if not may_reload or not _can_start_over(run):
                raise refusal
            continue
        drop_if_stranded(refusal.owner)
        if run.holds_thread or (run.config.on_busy == "reject" and not is_closing(refusal.owner)):
            raise refusal
        if check is not None and run.config.on_busy in STOPS_HOLDER:
            check()
        holder = EarlierHolder(run_of(refusal.owner), _loaded_head(run))
        if not (yield AwaitTurn(refusal.owner)):
            return _stopped_outcome(run)


def _loaded_head(run: Run) -> str | None:
    """Return the id of the head that the run has loaded last; "" if the thread had no checkpoint."""
    return run.claim.loaded_version[0] if run.claim is not None and run.claim.loaded_version is not None else None


def _can_start_over(run: Run) -> bool:
    """Return whether starting over may succeed, and record the version of the thread for which a claim was refused."""
    claim = run.claim
    if run.holds_thread or claim is None:
        return False
    if claim.refused_version is not None and claim.refused_version == claim.loaded_version:
        return False  # a second claim based on the same version was refused, so loading the thread again cannot help
    claim.refused_version = claim.loaded_version
    return True


def _forget_beginning(run: Run) -> None:
    """Discard the data that `begin` has left in the run, because its claim was refused."""
    if run.holds_thread:
        return
    run.open_namespaces, run.uncommitted_from = set(), None
    run.answers.clear()
    if run.claim is not None:
        run.claim.is_in_doubt = False


def _stopped_outcome(run: Run) -> RunOutcome:
    """Return the outcome of a run that was requested to stop before it held its thread, or after it had lost it."""
    control = run.control
    if control is not None and control.cancel_reason is not None:
        return RunOutcome("cancelled", NOTHING_SAVED, error=RunCancelled(control.cancel_reason))
    if control is not None and control.drain_reason is not None:
        return RunOutcome("failed", NOTHING_SAVED, error=GraphDrained(control.drain_reason))
    return RunOutcome("cancelled", NOTHING_SAVED)  # the driver itself is being cancelled, and raises the exception
