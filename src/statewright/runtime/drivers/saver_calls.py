"""Perform the storage effects of the core by calls of the saver. Both drivers use this module."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import partial
from typing import Any, TypeVar, cast

from statewright.checkpoint import BranchKey, Checkpoint, Checkpointer
from statewright.futures import AnyFuture, drive, is_future, resolve
from statewright.ids import CheckpointId, new_checkpoint_id
from statewright.runtime.core.effects import (
    AwaitTurn,
    Effect,
    Emit,
    Load,
    Namespaces,
    Save,
    SaveCallers,
    SavePending,
    Stamp,
)
from statewright.runtime.core.saving import save_uncommitted
from statewright.runtime.invocation.run import CallingTask, Run
from statewright.runtime.lifecycle.thread_lease import await_turn
from statewright.runtime.tasks.liveness import check_not_abandoned

T = TypeVar("T")


def perform_effect(run: Run, effect: Effect) -> Any:
    """Perform an effect other than RunTasks with blocking calls, and return the reply for the core."""
    if type(effect) is Stamp:
        return new_checkpoint_id(), run.ports.clock.now()
    if type(effect) is Emit:
        return cast(Any, run.emitter).emit(effect.event)
    if type(effect) is SaveCallers:
        return save_callers(effect.caller)
    if type(effect) is AwaitTurn:
        return await_turn(run, effect.holder)
    if type(effect) is Save and effect.commit.overlaps:
        try:
            reply = ask_saver(run, effect)
        except Exception:
            flush(run)  # if the previous commit has failed, raise its error, which has caused this one
            raise
        return resolve(replace_in_flight(run, reply))
    flush(run)
    if run.saves_on_exit:
        wait_until_callers_saved()
    return resolve(ask_saver(run, effect))


def replace_in_flight(run: Run, reply: Any) -> AnyFuture[Any] | None:
    """Record the saver's reply as the commit in flight. Return the previous commit in flight, which must be awaited.

    Only one commit may be in flight.
    """
    previous, run.in_flight_commit = run.in_flight_commit, reply if is_future(reply) else None
    return previous


def save_callers(caller: CallingTask) -> None:
    """Save the postponed commit of a task's run, after the postponed commits of the runs around it."""
    with _callers_lock:  # several concurrent tasks may save the same run
        perform_all(caller.run, save_uncommitted(caller.run, cast(Checkpoint, caller.checkpoint)))


_callers_lock = threading.RLock()
"""Held while postponed commits of calling runs are saved."""


def are_callers_being_saved() -> bool:
    """Return True if another thread is in `save_callers` at this moment."""
    if not _callers_lock.acquire(blocking=False):
        return True
    _callers_lock.release()
    return False


def wait_until_callers_saved() -> None:
    """Wait until no other thread is in `save_callers`.

    A run that was cancelled, or in which a task has failed, may be one of the runs that are being saved there. Its last
    write must follow that commit.
    """
    with _callers_lock:
        pass


def flush(run: Run) -> None:
    """Wait until the commit in flight, if any, is saved."""
    commit, run.in_flight_commit = run.in_flight_commit, None
    if commit is not None:
        check_saved(run, commit)


def check_saved(run: Run, commit: AnyFuture[Any]) -> None:
    """Wait for a commit that was in flight while the run continued. Raises its error."""
    try:
        resolve(commit)
    except BaseException:
        run.commit_failed()
        raise


def perform_all(run: Run, effects: Generator[Effect, Any, T]) -> T:
    """Perform storage effects until the generator returns, and return its result."""
    return drive(effects, partial(perform_effect, run))


def ask_saver(run: Run, effect: Effect) -> Any:
    """Call the saver for a storage effect, and return its result or a future of it."""
    saver, branch_key = cast(Checkpointer, run.saver), cast(BranchKey, run.branch_key)
    if type(effect) is Save:
        check_not_abandoned(run)
        return saver.commit(effect.commit)
    if type(effect) is SavePending:
        check_not_abandoned(run)
        checkpoint_id = CheckpointId(effect.checkpoint_id)
        return saver.save_results(branch_key, checkpoint_id, effect.pending, hold=effect.hold, log=effect.log)
    if type(effect) is Namespaces:
        return saver.namespaces(branch_key.thread_id)
    load = cast(Load, effect)
    if run.claim is not None:
        # Read before the load, because a lease that expires during the load must not be regarded as expired.
        run.claim.loaded_at = run.ports.clock.now()
    namespace = branch_key.namespace if load.namespace is None else load.namespace
    checkpoint_id = CheckpointId(load.checkpoint_id) if load.checkpoint_id else None
    return saver.load(branch_key.thread_id, namespace=namespace, branch=load.branch, checkpoint_id=checkpoint_id)
