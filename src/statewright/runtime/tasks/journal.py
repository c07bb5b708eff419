"""The journal: the recorded results of steps, so that their side effects happen only once.

The key of an entry consists of the task id, the name of the step, and the number of earlier calls with that name (the
*ordinal*). An entry is saved before the step returns, whatever the durability, and the commit that ends the task
deletes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from statewright.channels import copy_container
from statewright.checkpoint import JournalEntry, JournalKey, LeaseRequest, Pending, Task
from statewright.data.fingerprint import fingerprint
from statewright.errors import InvalidUpdateError, JournalConflict, LeaseLost, NonDeterminismError
from statewright.events import Log
from statewright.futures import is_future, resolve
from statewright.graph import START, is_coroutine_function
from statewright.ids import CheckpointId
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.liveness import (
    check_holds_thread,
    check_holds_thread_async,
    check_may_start,
    check_not_refused,
    note_refusal,
)
from statewright.runtime.tasks.scope import Scope

_AWAITED: Final = "~"
"""Suffix of the argument fingerprint if a plain function has returned an awaitable, because a replay must return an
awaitable too."""


def perform_step(
    scope: Scope, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of a step, from the journal if it is recorded; an awaitable for a coroutine function."""
    key, args_hash, entry = identify_call(scope, name, args, kwargs)
    if entry is not None:
        value = copy_container(entry.value)  # the node may change its copy
        if is_coroutine_function(function) or entry.arguments.endswith(_AWAITED):
            return _return_recorded(scope, key, entry, value)
        if type(entry) is UnsavedEntry:
            with _saving_again(scope, key, entry):
                resolve(save_entry(scope, key, entry))
        return value
    if is_coroutine_function(function):
        return _call_step_async(scope, key, args_hash, function, args, kwargs)
    check_holds_thread(scope, name)
    with emit_step_events(scope, key, args_hash), scope.enter_step(key) as step_scope:
        result = function(*args, **kwargs)
        if not inspect.isawaitable(result):
            check_not_refused(step_scope)
            resolve(record_entry(scope, key, JournalEntry(args_hash, copy_container(result))))
            return result
    return _complete_step_async(scope, key, args_hash, result, _AWAITED)


@contextmanager
def emit_step_events(scope: Scope, key: JournalKey, args_hash: str | None = None) -> Generator[None]:
    """Emit the events for the start and the end of a step.

    With `args_hash`, also record which attempt runs the step, and if it fails, that a retry may reuse its ordinal.
    """
    run, attempt, (_, name, ordinal) = scope.run, scope.attempt, key
    if args_hash is not None and attempt is not None:
        run.running_steps[key] = attempt
    emit_task_event("step_started", scope, (name, ordinal))
    try:
        yield
    except BaseException as error:
        note_refusal(scope, error)  # it may be a LeaseLost, raised when the result was saved
        if args_hash is not None and isinstance(error, Exception):
            scope.numbering().note_failed(name, args_hash, ordinal)
        emit_task_event("step_finished", scope, (name, ordinal, error))
        raise
    finally:
        if run.running_steps.get(key) is attempt:
            run.running_steps.pop(key, None)
    emit_task_event("step_finished", scope, (name, ordinal, None))


@contextmanager
def treat_conflict_as_saved(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """During the block, which saves an entry again, treat a JournalConflict as success.

    The conflict means that the entry is saved already: another attempt was abandoned before it knew that its save had
    succeeded. No other run can have written the entry, because this run holds the thread.
    """
    try:
        yield
    except JournalConflict:
        scope.run.journal[key] = JournalEntry(*entry)


@contextmanager
def _saving_again(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """Do the same as `treat_conflict_as_saved`, and record a LeaseLost as a refusal of the task."""
    try:
        with treat_conflict_as_saved(scope, key, entry):
            yield
    except LeaseLost as error:
        note_refusal(scope, error)
        raise


def identify_call(
    scope: Scope, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[JournalKey, str, JournalEntry | None]:
    """Count a call of a step or `@task` function. Return its key, the fingerprint of its arguments, and its entry.

    The entry is None if no result is recorded. Raises NonDeterminismError if the recorded call had other arguments,
    RunCancelled if the task may no longer act, and InvalidUpdateError outside a node.
    """
    if scope.task is None:
        raise InvalidUpdateError(f"Step {name!r} was called outside a node. Call it in a function that a graph runs.")
    if scope.task.node == START and scope.run.saver is not None:
        raise InvalidUpdateError(
            f"Step {name!r} was called in a conditional edge of START. Its result cannot be recorded, because no "
            f"checkpoint has been saved yet. Call it in a node."
        )
    check_may_start(scope, name)
    scope.reset_idle_timeout()
    args_hash = fingerprint((args, kwargs) if kwargs else args)
    key = (scope.task.id, name, scope.numbering().next_ordinal(name, args_hash))
    entry = scope.run.journal.get(key)
    if entry is not None:
        check_arguments(scope.task, key, entry.arguments, args_hash)
    return key, args_hash, entry


def check_arguments(task: Task, key: JournalKey, recorded_hash: str, args_hash: str) -> None:
    """Raise NonDeterminismError if an earlier execution of the task has made the call with other arguments."""
    if recorded_hash.removesuffix(_AWAITED) != args_hash:
        raise NonDeterminismError(task.node, key[1], key[2])


def record_entry(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    """Record a result in the journal, and save it with the buffered log entries of the task.

    Return the saver's reply, or a future of it. The result of an abandoned attempt is recorded too, unless the next
    attempt has already started the step again; then RunCancelled is raised.
    """
    if scope.run.running_steps.get(key, scope.attempt) is not scope.attempt:
        check_may_start(scope, key[1])
    unsaved = UnsavedEntry(*entry)
    if scope.run.journal.setdefault(key, unsaved) is not unsaved:
        raise JournalConflict(*key)  # an abandoned attempt, whose function was still running, has recorded it first
    return save_entry(scope, key, entry)


class UnsavedEntry(JournalEntry):
    """An entry that is not saved yet. If the saver refuses it, another attempt saves it without repeating the step."""

    __slots__ = ()


def save_entry(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    """Save an entry, and replace the UnsavedEntry in the run's journal. Return the saver's reply, or a future of it."""
    run = scope.run
    if run.saver is None or run.branch_key is None or scope.checkpoint is None:
        run.journal[key] = JournalEntry(*entry)
        return None
    if run.saves_on_exit:
        _save_checkpoint(scope)
    pending, hold = Pending(journal={key: JournalEntry(*entry)}), run.lease_request(run.ports.clock.now())
    log = _take_log(scope, hold)
    try:
        reply = run.saver.save_results(run.branch_key, CheckpointId(scope.checkpoint.id), pending, hold=hold, log=log)
    except JournalConflict:
        run.restore_log_entries(log)
        raise
    if not is_future(reply):
        run.journal[key] = JournalEntry(*entry)
    else:
        reply.add_done_callback(lambda future: _record_save(run, key, entry, log, future))
    return reply


def _record_save(run: Run, key: JournalKey, entry: JournalEntry, log: Log | None, future: Any) -> None:
    try:
        future.result()
    except JournalConflict:
        run.restore_log_entries(log)
    except Exception:
        return  # the caller waits for the same future, so it is raised there
    else:
        run.journal[key] = JournalEntry(*entry)


def _take_log(scope: Scope, hold: LeaseRequest | None) -> Log | None:
    """Remove the log entries of the task from the buffer, and return them to be saved with a journal entry.

    A replay reads the journal and does not repeat the work, so it would not log it either. Entries of other tasks stay
    in the buffer, because each entry is saved together with the work that it describes, or not at all.
    """
    run, task = scope.run, scope.task
    if task is None or not run.log_buffer:
        return None
    if not (run.holds_thread or run.nested):  # the entry "run_started", which has to come first, is not saved yet
        return None
    entries = run.take_log_entries(task.planned_id)
    return Log(run.run_id, hold.now if hold is not None else run.ports.clock.now(), entries) if entries else None


def _save_checkpoint(scope: Scope) -> None:
    """Save the postponed checkpoint of a run (durability="exit"), to which a journal entry must belong."""
    from statewright.runtime.drivers.saver_calls import save_callers

    save_callers(scope)


async def await_save(reply: Any) -> None:
    """Wait on the running event loop until a write is saved. `reply` is the saver's reply, or a future of it."""
    if is_future(reply):
        from statewright.async_futures import aresolve  # loads asyncio

        await aresolve(reply)


async def _call_step_async(
    scope: Scope, key: JournalKey, args_hash: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """Call a coroutine function as a step."""
    check_may_start(scope, key[1])  # checked again, because a coroutine may be awaited long after it was created
    await check_holds_thread_async(scope, key[1])
    return await _complete_step_async(scope, key, args_hash, function(*args, **kwargs))


async def _complete_step_async(
    scope: Scope, key: JournalKey, args_hash: str, result: Awaitable[Any], suffix: str = ""
) -> Any:
    """Await the result of a step, record it in the journal, and return it."""
    with emit_step_events(scope, key, args_hash), scope.enter_step(key) as step_scope:
        value = await result
        check_not_refused(step_scope)
        await await_save(record_entry(scope, key, JournalEntry(args_hash + suffix, copy_container(value))))
    return value


async def _return_recorded(scope: Scope, key: JournalKey, entry: JournalEntry, value: Any) -> Any:
    """Return a recorded result to code that awaits the step, and save the entry first if it is not saved yet."""
    if type(entry) is UnsavedEntry:
        with _saving_again(scope, key, entry):
            await await_save(save_entry(scope, key, entry))
    return value
