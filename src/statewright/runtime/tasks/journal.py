"""Perform side effects once: results of steps are recorded with the task that made them.

The key of an entry is its task, the name of the step, and how often the task has called that name before. It is saved
before the step returns, whatever the durability of the run, and dropped when a commit consumes the task.
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
from statewright.runtime.tasks.liveness import check_hold, check_hold_async, check_not_refused, check_open, note_refusal
from statewright.runtime.tasks.scope import Scope

_AWAITED: Final = "~"
"""Suffix of the fingerprint for a plain function that returned an awaitable: its result is awaited on replay too."""


def perform_step(
    scope: Scope, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of the function, from the journal if it is there; an awaitable for a coroutine function."""
    key, arguments, entry = find_entry(scope, name, args, kwargs)
    if entry is not None:
        value = copy_container(entry.value)  # the node may change its copy
        if is_coroutine_function(function) or entry.arguments.endswith(_AWAITED):
            return _return_recorded(scope, key, entry, value)
        if type(entry) is UnsavedEntry:
            with _save_again(scope, key, entry):
                resolve(save_entry(scope, key, entry))
        return value
    if is_coroutine_function(function):
        return _call_step_async(scope, key, arguments, function, args, kwargs)
    check_hold(scope, name)
    with emit_step_events(scope, key, arguments), scope.calling(key) as own:
        result = function(*args, **kwargs)
        if not inspect.isawaitable(result):
            check_not_refused(own)
            resolve(record(scope, key, JournalEntry(arguments, copy_container(result))))
            return result
    return _complete_step_async(scope, key, arguments, result, _AWAITED)


@contextmanager
def emit_step_events(scope: Scope, key: JournalKey, arguments: str | None = None) -> Generator[None]:
    """Emit the start and end events of a step; with `arguments`, release its ordinal for a retry if it fails."""
    run, attempt, (_, name, ordinal) = scope.run, scope.attempt, key
    if arguments is not None and attempt is not None:
        run.steps_under_way[key] = attempt
    emit_task_event("step_started", scope, (name, ordinal))
    try:
        yield
    except BaseException as error:
        note_refusal(scope, error)  # saving the result raises LeaseLost if the run has lost its lease
        if arguments is not None and isinstance(error, Exception):
            scope.counts().note_failed(name, arguments, ordinal)
        emit_task_event("step_finished", scope, (name, ordinal, error))
        raise
    finally:
        if run.steps_under_way.get(key) is attempt:
            run.steps_under_way.pop(key, None)
    emit_task_event("step_finished", scope, (name, ordinal, None))


@contextmanager
def treat_conflict_as_saved(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """Save an entry again because another attempt did not learn whether it was saved. A conflict means that it was.

    That attempt may have been abandoned while the saver was slow. No other run can have written the entry while this
    one holds the thread.
    """
    try:
        yield
    except JournalConflict:
        scope.run.journal[key] = JournalEntry(*entry)


@contextmanager
def _save_again(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """Save an entry again, and mark the task as cancelled if that shows that the lease is lost."""
    try:
        with treat_conflict_as_saved(scope, key, entry):
            yield
    except LeaseLost as error:
        note_refusal(scope, error)
        raise


def find_entry(
    scope: Scope, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[JournalKey, str, JournalEntry | None]:
    """Return the key of the next call of a step, the fingerprint of its arguments, and its entry if there is one.

    Raises NonDeterminismError if the entry is of a call with other arguments, RunCancelled if the task is over.
    """
    if scope.task is None:
        raise InvalidUpdateError(f"Step {name!r} was called outside a node. Call it in a function that a graph runs.")
    if scope.task.node == START and scope.run.saver is not None:
        raise InvalidUpdateError(
            f"Step {name!r} was called in a conditional edge of START, where nothing is saved yet, so its result "
            f"cannot be recorded. Call it in a node."
        )
    check_open(scope, name)
    scope.sign_of_life()
    arguments = fingerprint((args, kwargs) if kwargs else args)
    key = (scope.task.id, name, scope.counts().next_ordinal(name, arguments))
    entry = scope.run.journal.get(key)
    if entry is not None:
        check_arguments(scope.task, key, entry.arguments, arguments)
    return key, arguments, entry


def check_arguments(task: Task, key: JournalKey, before: str, arguments: str) -> None:
    """Raise NonDeterminismError if a call that was made before had other arguments; both are fingerprints."""
    if before.removesuffix(_AWAITED) != arguments:
        raise NonDeterminismError(task.node, key[1], key[2])


def record(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    """Save a result with the buffered log entries; return the saver's reply or a future of it.

    The result of an abandoned attempt is kept too: the next attempt need not repeat the step, unless it has begun it.
    """
    if scope.run.steps_under_way.get(key, scope.attempt) is not scope.attempt:
        check_open(scope, key[1])
    unsaved = UnsavedEntry(*entry)
    if scope.run.journal.setdefault(key, unsaved) is not unsaved:
        raise JournalConflict(*key)  # an attempt that was abandoned while its function ran has recorded it first
    return save_entry(scope, key, entry)


class UnsavedEntry(JournalEntry):
    """An entry of a step that has ended but is not saved yet: another attempt saves it without repeating the step."""

    __slots__ = ()


def save_entry(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    """Save an entry, and mark it as saved in the run's journal; return the saver's reply or a future of it."""
    run = scope.run
    if run.saver is None or run.line is None or scope.checkpoint is None:
        run.journal[key] = JournalEntry(*entry)
        return None
    if run.saves_at_rest:
        _save_checkpoint(scope)
    pending, hold = Pending(journal={key: JournalEntry(*entry)}), run.hold(run.ports.clock.now())
    log = _take_log(scope, hold)
    try:
        reply = run.saver.save_results(run.line, CheckpointId(scope.checkpoint.id), pending, hold=hold, log=log)
    except JournalConflict:
        run.put_back_noted(log)
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
        run.put_back_noted(log)
    except Exception:
        return  # raised to the caller, who waits for the same future
    else:
        run.journal[key] = JournalEntry(*entry)


def _take_log(scope: Scope, hold: LeaseRequest | None) -> Log | None:
    """Take the log entries of the task out of the buffer: a replay reads the journal and does not log this work again.

    Those of other tasks stay: each is written with the work that it describes, or not at all.
    """
    run, task = scope.run, scope.task
    if task is None or not run.log_buffer:
        return None
    if not (run.claimed or run.nested):  # "run_started", which has to come first, is not saved yet
        return None
    entries = run.take_noted(task.planned_id)
    return Log(run.run_id, hold.now if hold is not None else run.ports.clock.now(), entries) if entries else None


def _save_checkpoint(scope: Scope) -> None:
    """Save the postponed checkpoint of a run (durability="exit"), because an entry belongs to a saved checkpoint."""
    from statewright.runtime.drivers.saver_calls import save_callers

    save_callers(scope)


async def await_save(reply: Any) -> None:
    """Wait on the running event loop until a write is saved; `reply` is what the saver returned, maybe a future."""
    if is_future(reply):
        from statewright.async_futures import aresolve  # loads asyncio

        await aresolve(reply)


async def _call_step_async(
    scope: Scope, key: JournalKey, arguments: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """Call a coroutine function as a step."""
    check_open(scope, key[1])  # again: this coroutine may be awaited long after it was created
    await check_hold_async(scope, key[1])
    return await _complete_step_async(scope, key, arguments, function(*args, **kwargs))


async def _complete_step_async(
    scope: Scope, key: JournalKey, arguments: str, result: Awaitable[Any], suffix: str = ""
) -> Any:
    """Return the result of a step that has begun, and record it in the journal."""
    with emit_step_events(scope, key, arguments), scope.calling(key) as own:
        value = await result
        check_not_refused(own)
        await await_save(record(scope, key, JournalEntry(arguments + suffix, copy_container(value))))
    return value


async def _return_recorded(scope: Scope, key: JournalKey, entry: JournalEntry, value: Any) -> Any:
    """Return a recorded result to a caller that awaits the step."""
    if type(entry) is UnsavedEntry:
        with _save_again(scope, key, entry):
            await await_save(save_entry(scope, key, entry))
    return value
