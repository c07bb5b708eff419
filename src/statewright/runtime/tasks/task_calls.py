"""Calls of `@task` functions. They start immediately, run concurrently, and are performed only once.

Plain functions run on a few worker threads. If a thread waits for a call that no worker thread has started, it performs
the call itself, so that waiting cannot deadlock. A call of a coroutine function becomes an asyncio task of the running
event loop, or runs on a private loop if none is running.

A call may outlive the attempt that made it, and even the run, because a plain function cannot be stopped. Its result
must not be lost, and its effects must not happen twice. So running calls are registered by their journal keys, and a
later attempt, or a later run in this process, takes a running call over instead of calling the function again. The
scope of the call then moves to the new caller, and so do the calls made inside it. If the call ends with an error that
only means that the earlier attempt or run is over, the call is performed again for the new caller.

Two moments need care. When the function has returned, its result is saved under the lease of the current run, and the
saver may refuse the write. So from then on another run cannot take the call over, and makes a call of its own. When the
call ends, it is added to the journal before it is removed from the registry. Callers read both under one lock, so they
always find the call in one of them.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, cast

from statewright.cache import Cache, CacheKey
from statewright.channels import copy_container
from statewright.checkpoint import JournalEntry, JournalKey, Task, scope_of
from statewright.clock import Duration, as_seconds
from statewright.data.fingerprint import fingerprint
from statewright.errors import GraphDrained, InvalidUpdateError, LeaseLost, RunCancelled
from statewright.futures import drive, resolve
from statewright.graph import CachePolicy, RetryPolicy, TimeoutPolicy, is_coroutine_function
from statewright.graph.policy import as_retries, as_timeout
from statewright.ids import TaskId
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.open_calls import OpenCalls
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.call_pool import CallPool, PooledCall
from statewright.runtime.tasks.journal import (
    UnsavedEntry,
    await_save,
    check_arguments,
    emit_step_events,
    identify_call,
    record_entry,
    save_entry,
    treat_conflict_as_saved,
)
from statewright.runtime.tasks.liveness import (
    check_holds_thread,
    check_holds_thread_async,
    check_may_start,
    check_not_refused,
    override_if_refused,
)
from statewright.runtime.tasks.policies import NO_POLICIES, NodePolicies
from statewright.runtime.tasks.retries import (
    CACHE_UNAVAILABLE,
    TaskEffect,
    Try,
    Wait,
    ask_cache,
    attempt_within_limits,
    retry_delay,
)
from statewright.runtime.tasks.retries_sync import call_with_timeout, perform_wait
from statewright.runtime.tasks.scope import CalledTask, Scope, current_scope, enter_scope
from statewright.runtime.tasks.task_future import TaskFuture


class CalledFunction:
    """A `@task` function with its name and policies."""

    __slots__ = ("function", "is_coroutine", "name", "policies", "shows_result")

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: TimeoutPolicy | Duration | None = None,
        *,
        shows_result: bool = True,
    ) -> None:
        """`name` is by default the function's own; `shows_result` is False to hide results from the mode `updates`."""
        self.shows_result = shows_result
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_coroutine = is_coroutine_function(function)
        retries, timeout = as_retries(retry_policy), as_timeout(timeout)
        has_policies = retries or timeout or cache_policy
        self.policies = NodePolicies(retries=retries, timeout=timeout, cache=cache_policy) if has_policies else None


RegistryKey = tuple[object, JournalKey]
"""Identifies a call in this process: the journal that it belongs to (see `_journal_id`), and the key of its entry."""

_pool: Final = CallPool()
_running: Final[dict[RegistryKey, Call]] = {}
"""The registry of calls that have not ended."""
_lock = threading.Lock()
"""Guards the registry, and the attributes that a takeover changes. It is not held while a function runs or a result is
saved."""


def call_task(function: CalledFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture[Any]:
    """Call a `@task` function in the current task, and return the future of its result.

    If an earlier execution has made the same call, its recorded result is used. If the same call is still running, it
    is taken over. Raises InvalidUpdateError outside a graph, and NonDeterminismError if the earlier call had other
    arguments.
    """
    caller = current_scope()
    if caller is None or caller.task is None:
        raise InvalidUpdateError(
            f"The task {function.name!r} was called outside a graph. Call it in an entrypoint or in a node."
        )
    key, args_hash, _ = identify_call(caller, function.name, args, kwargs)
    future: TaskFuture[Any] = TaskFuture(caller)
    run = caller.run
    with _lock:
        registry_key = _journal_id(run), key
        call = _running.get(registry_key)
        if call is not None and call.can_be_taken_by(run):
            call.take_over(caller, args_hash, future)
            return future
        # The journal is read again under the lock, because the call may have ended since `identify_call` has read it.
        entry = run.journal.get(key)
        if entry is not None:
            check_arguments(caller.task, key, entry.arguments, args_hash)
        if entry is None or isinstance(entry, UnsavedEntry):
            new_call = Call(function, args, kwargs, caller, registry_key, args_hash, future, entry)
            _running[registry_key] = new_call
            _open_calls_of(run).add(new_call)
        else:
            new_call = None
    if new_call is not None:
        new_call.start()
    elif entry is not None:
        future.settle(copy_container(entry.value), None)  # the node may change its copy
    return future


def _journal_id(run: Run) -> object:
    """Return a value that identifies the journal of a run. Runs on the same branch of a thread share a journal."""
    return (scope_of(run.saver), run.branch_key) if run.saver is not None and run.branch_key is not None else id(run)


def _open_calls_of(run: Run) -> OpenCalls:
    """Return the open calls of a run, which are created when they are first needed."""
    if run.open_calls is None:
        run.open_calls = OpenCalls()
    return run.open_calls


class Call:
    """A call of a `@task` function that has not ended."""

    __slots__ = (
        "_args",
        "_args_hash",
        "_asyncio_task",
        "_caller_numbering",
        "_calling_attempt",
        "_ended_in",
        "_entry",
        "_function",
        "_futures",
        "_is_recording",
        "_key",
        "_kwargs",
        "_loop",
        "_owns_loop",
        "_pooled",
        "_registry_key",
        "_scope",
        "_takeover_count",
        "_thread_scope",
        "ended",
    )

    def __init__(
        self,
        function: CalledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        caller: Scope,
        registry_key: RegistryKey,
        args_hash: str,
        future: TaskFuture[Any],
        entry: JournalEntry | None,
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._registry_key = registry_key
        self._key = registry_key[1]
        self._args_hash = args_hash
        """The fingerprint of the arguments."""
        self._scope = caller.pinned_copy()
        self._scope.task = CalledTask(cast(Task, caller.task), self._key)
        self._scope.held_slots = ()
        self._scope.refusals = {}  # not the refusals of the run, because another run may take the call over
        self._thread_scope: Scope | None = None
        """The copy of the scope in which a function with a timeout runs."""
        self._calling_attempt = caller.attempt
        """The attempt that waits for the call."""
        self._caller_numbering = caller.numbering()
        """The numbering of its calls, in which a failure of the call is recorded."""
        self._takeover_count = 0
        """The number of times that another attempt has taken the call over."""
        self._entry = entry
        """The journal entry with the result; None until the function has returned. It may not be saved yet."""
        self._is_recording = False
        """True from the moment at which the function returns until its result is saved."""
        self._futures = [future]
        """The futures of all attempts that have made or taken over the call."""
        self._pooled: PooledCall | None = None
        """The call in the pool of worker threads; None for a coroutine function."""
        self._loop: Any = None
        """The event loop of a coroutine function; None for a plain function."""
        self._owns_loop = False
        """True if a private loop was borrowed for the call."""
        self._asyncio_task: Any = None
        """The asyncio task of a coroutine function; None for a plain function."""
        self._ended_in: Run | None = None
        """The run to which the call belonged when it left the registry; None until then."""
        self.ended = future.future
        """Completed once the call has ended, with its result or its error."""

    @property
    def planned_id(self) -> TaskId:
        """The id of the superstep's task in which the call was made, directly or by other calls."""
        return cast(Task, self._scope.task).planned_id

    @property
    def caller_id(self) -> TaskId:
        """The id of the task that made the call, which may be another `@task` call."""
        return self._key[0]

    @property
    def is_running_function(self) -> bool:
        """True if the function is a plain function, is running, and its attempt was not abandoned."""
        return self._pooled is not None and self._pooled.is_claimed and not self._scope.abandoned

    # -- the caller, which may change

    def can_be_taken_by(self, run: Run) -> bool:
        """Return whether a run may take the call over.

        The run of the call itself always may; another run must not if the result is being saved, or if the call has
        received a refusal (see `liveness`). The caller of this method holds the lock.
        """
        return run is self._scope.run or not (self._is_recording or self._scope.refusals)

    def take_over(self, caller: Scope, args_hash: str, future: TaskFuture[Any]) -> None:
        """Continue for another attempt, because the calling one may have been abandoned.

        The caller of this method holds the lock. Raises NonDeterminismError if the new attempt passes other arguments.
        """
        check_arguments(cast(Task, self._scope.task), self._key, self._args_hash, args_hash)
        self._caller_numbering = caller.numbering()
        self._move(caller)
        self._futures.append(future)
        self._attach(future)

    def _move(self, caller: Scope) -> None:
        """Move this call, and all calls made inside it, to another attempt at the calling task, maybe of another run.

        The caller of this method holds the lock.
        """
        scope, old_run = self._scope, self._scope.run
        if scope.attempt is self._calling_attempt:
            scope.attempt = caller.attempt
        elif scope.attempt is not None:
            scope.attempt.outer = caller.attempt
        self._calling_attempt = caller.attempt
        self._takeover_count += 1
        if caller.run is not old_run:
            for own_scope in (scope, self._thread_scope) if self._thread_scope is not None else (scope,):
                own_scope.run, own_scope.checkpoint = caller.run, caller.checkpoint
            _open_calls_of(caller.run).add(self)
            if old_run.open_calls is not None:
                old_run.open_calls.discard(self)
        if old_run.open_calls is not None:
            for call in old_run.open_calls.find_by_caller(cast(Task, scope.task)):
                inner = cast(Call, call)
                if inner._ended_in is None:
                    inner._move(scope)

    def _attach(self, future: TaskFuture[Any]) -> None:
        """Give a future what its waiters need: the pooled call or the asyncio task."""
        # An asyncio task of a private loop cannot be awaited on the loop of the caller.
        future.set_performer(self._pooled, None if self._owns_loop else self._asyncio_task)

    def _attach_all(self) -> None:
        with _lock:
            for future in self._futures:
                self._attach(future)

    def _prepare_repeat(self, error: BaseException, takeovers: int) -> bool:
        """Return whether the call must be performed again after an error; if not, remove it from the registry.

        A call is performed again if the error only means that an attempt or run is over, and another attempt has taken
        the call over in the meantime. `takeovers` is the number of takeovers when the call was last started.
        """
        with _lock:
            is_refusal = isinstance(override_if_refused(self._scope, error), RunCancelled | GraphDrained | LeaseLost)
            if is_refusal and self._takeover_count != takeovers:
                self._scope.reset_numbering()
                self._scope.refusals.clear()
                self._is_recording = False
                return True
            self._leave_registry()
            return False

    def _leave_registry(self) -> None:
        """Remove the call from the registry. The caller of this method holds the lock."""
        self._ended_in = self._ended_in or self._scope.run
        if _running.get(self._registry_key) is self:
            del _running[self._registry_key]

    # -- start and end

    def start(self) -> None:
        """Start the call: submit a plain function to the pool, or create the asyncio task of a coroutine function."""
        try:
            if self._function.is_coroutine:
                self._start_coroutine()
            else:
                self._pooled = PooledCall(self._run)
                self._attach_all()
                _pool.submit(self._pooled)
        except BaseException as error:
            self._end(None, error)
            raise

    def cancel_unstarted(self) -> None:
        """Cancel the call if it is a plain function that has not started."""
        if self._pooled is not None and self._pooled.claim():
            name = self._function.name
            self._end(None, RunCancelled(f"The node that called the task {name!r} ended before the task started."))

    def stop(self) -> bool:
        """Cancel the call if it is a coroutine, because its superstep is over. May be called from any thread.

        Return True if its end must be awaited. A plain function keeps running, and a later run may take it over.
        """
        if self._pooled is not None:
            _pool.replace_thread(self._pooled)
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed, so the coroutine no longer runs
            return False
        return self._loop.is_running()  # False if the node has run a loop of its own, and has stopped it

    def _end(self, value: Any, error: BaseException | None) -> None:
        """End the call: remove it from the registry, and complete its futures."""
        with _lock:
            self._leave_registry()
            futures, self._futures = self._futures, []
            if isinstance(error, Exception):
                _, name, ordinal = self._key
                self._caller_numbering.note_failed(name, self._args_hash, ordinal)
        run = self._scope.run
        if run.open_calls is not None:
            run.open_calls.discard(self)
        for future in reversed(futures):  # each caller gets its own copy, which it may change
            future.settle(value if future is futures[0] else copy_container(value), error, self._ended_in)
        if (step := run.superstep) is not None:
            step.on_call_ended()

    # -- a plain function

    def _run(self) -> None:
        """Perform the call on this thread, again if it was taken over meanwhile, and end it."""
        enter_scope(self._scope)
        while True:
            takeovers = self._takeover_count
            try:
                value = self._perform()
            except BaseException as error:
                if self._prepare_repeat(error, takeovers):
                    continue
                self._end(None, override_if_refused(self._scope, error))
            else:
                self._end(value, None)
            return

    def _perform(self) -> Any:
        """Call the function, record its result in the journal, and return it.

        If the function returned before, and its result was not saved, only save the result.
        """
        scope, key = self._scope, self._key
        if self._entry is not None:
            with treat_conflict_as_saved(scope, key, self._entry):
                resolve(save_entry(scope, key, self._entry))
            self._emit_call_finished(self._entry.value)
            return copy_container(self._entry.value)
        with emit_step_events(scope, key):
            value = self._call() if self._is_simple else self._call_by_policies()
            _check_not_awaitable(self._function.name, value)
            resolve(record_entry(scope, key, self._begin_recording(value)))
        self._emit_call_finished(value)
        return value

    def _call(self) -> Any:
        """Call the function, if the calling task may still act."""
        check_may_start(self._scope, self._function.name)
        check_holds_thread(self._scope, self._function.name)
        return self._function.function(*self._args, **self._kwargs)

    def _call_by_policies(self) -> Any:
        """Call the function according to its policies, and return its result."""
        return drive(self._attempt(), self._perform_effect)

    def _perform_effect(self, effect: TaskEffect) -> Any:
        if type(effect) is not Try:
            return perform_wait(self._scope, effect)
        if effect.timeout is None:
            return self._try_once()
        with _lock:
            self._thread_scope = thread_scope = self._scope.copy_sharing_slots()
        name, timeout = self._function.name, effect.timeout
        return call_with_timeout(self._scope, thread_scope, name, timeout, self._try_once, outlives_run=True)

    def _try_once(self) -> Any:
        try:
            return _Value(self._call())
        except BaseException as error:
            return error

    # -- a coroutine function: each method corresponds to a method for plain functions

    def _start_coroutine(self) -> None:
        """Start the call on the running loop, or on a private one."""
        import asyncio

        from statewright.runtime.concurrency.private_loop import borrow_loop

        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop, self._owns_loop = borrow_loop(), True
            self._loop.call_soon_threadsafe(self._start_on_loop)
        else:
            self._start_on_loop()
            self._attach_all()

    def _start_on_loop(self) -> None:
        self._asyncio_task = self._loop.create_task(self._run_async())
        self._asyncio_task.add_done_callback(self._leave_loop)

    def _leave_loop(self, _: Any) -> None:
        """End the call if its coroutine has not done so, and give back a private loop. A done callback."""
        if not self.ended.done():  # cancelled before its coroutine started
            import asyncio

            self._end(None, asyncio.CancelledError())
        if self._owns_loop:
            from statewright.runtime.concurrency.private_loop import return_loop

            return_loop(self._loop, idle=True)

    def _cancel(self) -> None:
        if self._asyncio_task is not None:
            self._asyncio_task.cancel()

    @property
    def is_on_this_thread(self) -> bool:
        """True if the call is running on the event loop of this thread: blocking here would deadlock."""
        import asyncio

        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _run_async(self) -> None:
        """Do the same as `_run` on the running event loop."""
        enter_scope(self._scope)
        while True:
            takeovers = self._takeover_count
            try:
                value = await self._perform_async()
            except GeneratorExit as error:  # the coroutine is dropped, maybe in a finaliser, and `_end` takes a lock
                workers.hand_over(partial(self._end, None, error))
                raise
            except BaseException as error:
                if self._prepare_repeat(error, takeovers):
                    continue
                self._end(None, override_if_refused(self._scope, error))
            else:
                self._end(value, None)
            return

    async def _perform_async(self) -> Any:
        """Do the same as `_perform` on the running event loop."""
        scope, key = self._scope, self._key
        if self._entry is not None:
            with treat_conflict_as_saved(scope, key, self._entry):
                await await_save(save_entry(scope, key, self._entry))
            self._emit_call_finished(self._entry.value)
            return copy_container(self._entry.value)
        with emit_step_events(scope, key):
            value = await (self._call_async() if self._is_simple else self._call_by_policies_async())
            await await_save(record_entry(scope, key, self._begin_recording(value)))
        self._emit_call_finished(value)
        return value

    async def _call_async(self) -> Any:
        """Call the coroutine function, if the calling task may still act."""
        check_may_start(self._scope, self._function.name)
        await check_holds_thread_async(self._scope, self._function.name)
        return await self._function.function(*self._args, **self._kwargs)

    async def _call_by_policies_async(self) -> Any:
        """Call the coroutine function according to its policies, and return its result."""
        from statewright.async_futures import adrive

        return await adrive(self._attempt(), self._perform_effect_async)

    async def _perform_effect_async(self, effect: TaskEffect) -> Any:
        from statewright.runtime.tasks.retries_async import Deadline, await_outcome, perform_wait_async

        if type(effect) is not Try:
            return await perform_wait_async(self._scope, effect)
        attempt, name = cast(Attempt, self._scope.attempt), self._function.name
        deadline = Deadline(attempt, effect.timeout, name) if effect.timeout is not None else None
        return await await_outcome(self._call_async(), deadline, _Value)

    # -- plain functions and coroutine functions

    @property
    def _is_simple(self) -> bool:
        """True if neither policies of the function nor limits of the run apply to the call."""
        return self._function.policies is None and not self._scope.run.slots

    def _begin_recording(self, value: Any) -> JournalEntry:
        """Return the journal entry for the result of the function. From now on, no other run can take the call over.

        The entry is stored in this call, so that it can be saved again if the saver refuses it now.
        """
        check_not_refused(self._scope)
        with _lock:
            self._is_recording = True
            self._entry = JournalEntry(self._args_hash, copy_container(value))
            return self._entry

    def _attempt(self) -> Generator[TaskEffect, Any, Any]:
        """Make attempts until one succeeds, and return the function's result.

        Raises the last error if the policies allow no further attempt. Yields effects and receives their results, like
        `retries.attempt_task`.
        """
        scope, policies, run = self._scope, self._function.policies or NO_POLICIES, self._scope.run
        cache = cast(Cache, run.ports.cache)
        cache_policy = policies.cache if run.ports.cache is not None else None
        cache_key = self._cache_key(cache_policy) if cache_policy is not None else None
        if cache_key is not None:
            cached = yield from ask_cache(partial(cache.get, cache_key))
            if cached is CACHE_UNAVAILABLE:
                cache_key = None
            elif cached is not None:
                return copy_container(cached[0])
        number = 1
        heartbeat_only = policies.timeout is not None and policies.timeout.heartbeat_only
        while True:
            attempt = Attempt(
                number,
                run.ports.clock,
                is_repeat=number > 1,
                heartbeat_only=heartbeat_only,
                outer=self._calling_attempt,
            )
            scope.begin_attempt(attempt)
            result: Any = yield from attempt_within_limits(scope, policies, policies.timeout)
            if type(result) is _Value:
                break
            delay = retry_delay(policies, number, result)
            if delay is None:
                raise result
            attempt.failed_task = scope.task
            if delay > 0 and not (yield Wait(delay)):
                raise result
            number += 1
        if cache_key is not None and cache_policy is not None:
            ttl = None if cache_policy.ttl is None else as_seconds(cache_policy.ttl)
            yield from ask_cache(partial(cache.put, cache_key, (copy_container(result.value),), ttl=ttl))
        return result.value

    def _cache_key(self, policy: CachePolicy) -> CacheKey:
        key_func = policy.key_func
        args_hash = self._args_hash if key_func is None else fingerprint(key_func(*self._args, **self._kwargs))
        function = inspect.unwrap(self._function.function)
        path = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        return CacheKey(f"{path}:{self._function.name}", args_hash)

    def _emit_call_finished(self, value: Any) -> None:
        scope = self._scope
        if scope.run.emitter is not None and self._function.shows_result and not scope.abandoned:
            emit_task_event("call_finished", scope, (self._function.name, copy_container(value)))


def _check_not_awaitable(name: str, value: Any) -> None:
    """Raise InvalidUpdateError if a plain function returned an awaitable, because it would never be awaited."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidUpdateError(
            f"The task {name!r} is a plain function, but it returned an awaitable ({type(value).__name__!r}). "
            f"Define it with `async def`."
        )


class _Value:
    """Wraps the result of a function, to distinguish it from an exception that the function has raised."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _forget_calls() -> None:
    """Forget all calls in a forked process, which does not have the threads that are performing them."""
    global _lock
    _lock = threading.Lock()
    _running.clear()
    _pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_calls)
