"""Perform side effects once: results of steps are recorded with the task that made them.

An entry is known by its task, the name of the step and how often the task has called that name before. It is saved
before the step returns, whatever the durability of the run, and goes when the task is consumed.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from statewright.channels import copy_container
from statewright.checkpoint import JournalEntry, JournalKey, LeaseRequest, Pending, Task
from statewright.errors import InvalidUpdateError, JournalConflict, LeaseLost, NonDeterminismError
from statewright.events import Log
from statewright.fingerprint import fingerprint
from statewright.futures import is_future, resolve
from statewright.graph import START, is_coroutine_function
from statewright.ids import CheckpointId
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import Scope
from statewright.runtime.tasks.standing import check_hold, check_hold_async, check_not_refused, check_open, note_refusal

_AWAITED: Final = "~"
"""Suffix of the fingerprint for a plain function that returned an awaitable: its result is awaited on replay too."""


def journalled(
    scope: Scope, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of the function, from the journal if it is there; an awaitable for a coroutine function."""
    found = recall(scope, name, args, kwargs)
    key, given, entry = found
    if entry is not None:
        value = copy_container(entry.value)  # the node may change what it was given
        if is_coroutine_function(function) or entry.given.endswith(_AWAITED):
            return _given(scope, key, entry, value)
        if type(entry) is Unsaved:
            with _saved_again(scope, key, entry):
                resolve(save_entry(scope, key, entry))
        return value
    if is_coroutine_function(function):
        return _awaited(scope, key, given, function, args, kwargs)
    check_hold(scope, name)
    with step_events(scope, key, given), scope.calling(key) as own:
        result = function(*args, **kwargs)
        if not inspect.isawaitable(result):
            check_not_refused(own)
            resolve(record(scope, key, JournalEntry(given, copy_container(result))))
            return result
    return _completed(scope, key, given, result, _AWAITED)


@contextmanager
def step_events(scope: Scope, key: JournalKey, given: str | None = None) -> Generator[None]:
    """Emit the start and end events of a step; with `given`, release its ordinal for a retry if it fails."""
    run, attempt, (_, name, ordinal) = scope.run, scope.attempt, key
    if given is not None and attempt is not None:
        run.steps_under_way[key] = attempt
    emit_task_event("step_started", scope, (name, ordinal))
    try:
        yield
    except BaseException as error:
        note_refusal(scope, error)  # saving the result raises LeaseLost if the run has lost its lease
        if given is not None and isinstance(error, Exception):
            scope.counts().note_failed(name, given, ordinal)
        emit_task_event("step_finished", scope, (name, ordinal, error))
        raise
    finally:
        if run.steps_under_way.get(key) is attempt:
            run.steps_under_way.pop(key, None)
    emit_task_event("step_finished", scope, (name, ordinal, None))


@contextmanager
def accept_saved(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """Save an entry again that another attempt has not seen saved.

    It may have landed all the same: the attempt was given up while the saver was slow. Then it is saved, since nobody
    else can have written it while the run holds the thread.
    """
    try:
        yield
    except JournalConflict:
        scope.run.journal[key] = JournalEntry(*entry)


@contextmanager
def _saved_again(scope: Scope, key: JournalKey, entry: JournalEntry) -> Generator[None]:
    """Save an entry again, and mark the task as cancelled if that shows that the lease is lost."""
    try:
        with accept_saved(scope, key, entry):
            yield
    except LeaseLost as error:
        note_refusal(scope, error)
        raise


def recall(
    scope: Scope, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[JournalKey, str, JournalEntry | None]:
    """The key of the next call of a step, what it is given, and its entry if it was done before.

    Raises NonDeterminismError if it was done with other arguments, RunCancelled if nobody waits for the task any more.
    """
    if scope.task is None:
        raise InvalidUpdateError(f"Step {name!r} was called outside a node. Call it in a function that a graph runs.")
    if scope.task.node == START and scope.run.saver is not None:
        raise InvalidUpdateError(
            f"Step {name!r} was called in a conditional edge of START, where nothing is saved yet, so its result could "
            f"not be kept. Call it in a node."
        )
    check_open(scope, name)
    scope.sign_of_life()
    given = fingerprint((args, kwargs) if kwargs else args)
    key = (scope.task.id, name, scope.counts().next_place(name, given))
    entry = scope.run.journal.get(key)
    if entry is not None:
        check_given(scope.task, key, entry.given, given)
    return key, given, entry


def check_given(task: Task, key: JournalKey, before: str, given: str) -> None:
    """Raise NonDeterminismError if a call that was made before had other arguments."""
    if before.removesuffix(_AWAITED) != given:
        raise NonDeterminismError(task.node, key[1], key[2])


def record(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    """Save a result with the buffered log entries; return the saver's answer or a future of it.

    The result of an attempt that was given up is kept too, and spares the next one the step, unless that has begun it.
    """
    if scope.run.steps_under_way.get(key, scope.attempt) is not scope.attempt:
        check_open(scope, key[1])
    unsaved = Unsaved(*entry)
    if scope.run.journal.setdefault(key, unsaved) is not unsaved:
        raise JournalConflict(*key)  # by an attempt that was given up while its function ran: the first record stays
    return save_entry(scope, key, entry)


class Unsaved(JournalEntry):
    """An entry of a step that was done and could not be saved yet: another attempt saves it, and does nothing."""

    __slots__ = ()


def save_entry(scope: Scope, key: JournalKey, entry: JournalEntry) -> Any:
    run = scope.run
    if run.saver is None or run.line is None or scope.checkpoint is None:
        run.journal[key] = JournalEntry(*entry)
        return None
    if run.saves_at_rest:
        _save_checkpoint(scope)
    known, hold = Pending(journal={key: JournalEntry(*entry)}), run.hold(run.ports.clock.now())
    log = _noted(scope, hold)
    try:
        answer = run.saver.save_results(run.line, CheckpointId(scope.checkpoint.id), known, hold=hold, log=log)
    except JournalConflict:
        run.put_back_noted(log)
        raise
    if not is_future(answer):
        run.journal[key] = JournalEntry(*entry)
    else:
        answer.add_done_callback(lambda saved: _note_saved(run, key, entry, log, saved))
    return answer


def _note_saved(run: Run, key: JournalKey, entry: JournalEntry, log: Log | None, saved: Any) -> None:
    try:
        saved.result()
    except JournalConflict:
        run.put_back_noted(log)
    except Exception:
        return  # whoever waits for it hears of it
    else:
        run.journal[key] = JournalEntry(*entry)


def _noted(scope: Scope, hold: LeaseRequest | None) -> Log | None:
    """Return the log entries of the task: a later execution that reads the journal does not log this work again.

    What others have noted stays for entries of their own: each is written with its work, or not at all.
    """
    run, task = scope.run, scope.task
    if task is None or not run.log_buffer or not (run.claimed or run.nested):  # it has not told yet that it has begun
        return None
    noted = run.take_noted(task.planned_id)
    return Log(run.run_id, hold.now if hold is not None else run.ports.clock.now(), noted) if noted else None


def _save_checkpoint(scope: Scope) -> None:
    """Save the checkpoint that a run keeps back until it rests: an entry needs something that it belongs to."""
    from statewright.runtime.drivers.saver_calls import save_callers

    save_callers(scope)


async def wait_for_async(answer: Any) -> None:
    """Wait until the saver has what it was given, on the running event loop."""
    if is_future(answer):
        from statewright.async_futures import aresolve  # loads asyncio

        await aresolve(answer)


async def _awaited(
    scope: Scope, key: JournalKey, given: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> Any:
    check_open(scope, key[1])  # it may be awaited long after it was made
    await check_hold_async(scope, key[1])
    return await _completed(scope, key, given, function(*args, **kwargs))


async def _completed(scope: Scope, key: JournalKey, given: str, result: Awaitable[Any], awaited: str = "") -> Any:
    """Return the result of a step that has begun, and record it in the journal."""
    with step_events(scope, key, given), scope.calling(key) as own:
        value = await result
        check_not_refused(own)
        await wait_for_async(record(scope, key, JournalEntry(given + awaited, copy_container(value))))
    return value


async def _given(scope: Scope, key: JournalKey, entry: JournalEntry, value: Any) -> Any:
    if type(entry) is Unsaved:
        with _saved_again(scope, key, entry):
            await wait_for_async(save_entry(scope, key, entry))
    return value
