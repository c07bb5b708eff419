"""Calls of `@task` functions: started immediately, running concurrently, each performed once.

A plain function goes to a few worker threads; whoever asks for a result that nobody has begun to work on does the
work, so that waiting cannot deadlock. A coroutine function becomes an asyncio task of the running loop, or runs on a
private loop where none runs.

A call that is under way is not begun again: a later attempt at its task takes it, and so does a later run in this
process, if the one that made the call ended meanwhile and could not stop it.
"""

from __future__ import annotations

import contextvars
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from statewright.cache import CacheKey
from statewright.channels import copy_container
from statewright.checkpoint import JournalEntry, JournalKey, Task, scope_of
from statewright.clock import Duration, as_seconds
from statewright.errors import GraphDrained, InvalidUpdateError, LeaseLost, RunCancelled
from statewright.fingerprint import fingerprint
from statewright.futures import SafeEvent, resolve
from statewright.graph import CachePolicy, RetryPolicy, TimeoutPolicy, is_coroutine_function
from statewright.graph.policy import as_retries, as_timeout
from statewright.ids import TaskId
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.open_calls import Calls
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.execute import ENDS_THE_RUN
from statewright.runtime.tasks.journal import (
    Unsaved,
    accept_saved,
    check_given,
    recall,
    record,
    save_entry,
    step_events,
    wait_for_async,
)
from statewright.runtime.tasks.policies import Guards
from statewright.runtime.tasks.retries import (
    Ask,
    Take,
    TaskEffect,
    Try,
    Wait,
    admitted,
    call_with_timeout,
    chosen_delay,
    suspended_slots,
    take,
    wait,
)
from statewright.runtime.tasks.scope import CalledTask, Scope, current_scope, enter_scope
from statewright.runtime.tasks.standing import (
    check_hold,
    check_hold_async,
    check_not_refused,
    check_open,
    check_waits,
    note_refusal,
    void_if_refused,
    woken_by_the_end,
)

T = TypeVar("T")


class CalledFunction:
    """A function with its name and policies."""

    __slots__ = ("function", "guards", "is_coroutine", "name", "shows_result")

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
        """`shows_result`: True if readers of the stream mode `updates` receive the result of a call."""
        self.shows_result = shows_result
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_coroutine = is_coroutine_function(function)
        retries, timeout = as_retries(retry_policy), as_timeout(timeout)
        has_guards = retries or timeout or cache_policy
        self.guards = Guards(retries=retries, timeout=timeout, cache=cache_policy) if has_guards else None


class TaskFuture(Generic[T]):
    """The result of a task that may not be there yet."""

    __slots__ = ("_begin", "_caller", "_ended_in", "_future", "_running")

    def __init__(self, caller: Scope) -> None:
        self._caller = caller
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()  # who waits for it may be cancelled, and it must not
        self._begin: _Work | None = None
        """Performs the call, if it has not begun."""
        self._running: Any = None
        """The asyncio task that does the work, if one does."""
        self._ended_in: Run | None = None
        """The run in which the work ended."""

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it.

        Raises what the task raised, TimeoutError after `timeout` seconds, RunCancelled if the caller's run is over.
        """
        if not self._future.done():
            self._check_loop()
            with suspended_slots(self._caller):
                self._help(timeout)
                self._wait_on_thread(timeout)
        return self._value()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return the exception of the task; None if it has a result."""
        if not self._future.done():
            self._check_loop()
            with suspended_slots(self._caller):
                self._help(timeout)
                self._wait_on_thread(timeout)
        error = self._future.exception(0)
        if error is not None:
            note_refusal(self._caller, error, self._ended_in)
        return error

    def _value(self) -> T:
        """Return the result of a call that has ended, or raise its error."""
        try:
            return self._future.result(0)
        except (RunCancelled, LeaseLost) as error:
            note_refusal(self._caller, error, self._ended_in)
            raise

    def _wait_on_thread(self, timeout: float | None) -> None:
        """Block until the call has ended or the time is over. Raise RunCancelled if the caller's run ends before."""
        caller, woken = self._caller, SafeEvent()  # a signal handler may cancel the run
        ends = None if timeout is None else time.monotonic() + timeout
        self._future.add_done_callback(lambda _: woken.set())
        with woken_by_the_end(caller, woken.set):
            while not self._future.done():
                check_waits(caller)
                if not woken.wait(None if ends is None else ends - time.monotonic()):
                    return
                woken.clear()

    def _help(self, timeout: float | None) -> None:
        """Perform the call here, if it has not begun and there is time."""
        if timeout is None and self._begin is not None and self._begin.claim():
            self._begin.run()

    def add_done_callback(self, callback: Callable[[TaskFuture[T]], object]) -> None:
        """Call back when the result is there."""
        self._future.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        import asyncio
        from contextlib import nullcontext

        from statewright.runtime.tasks.retries_async import lent_async

        if self._future.done():
            return self._value()
        caller = self._caller
        try:
            async with lent_async(caller) if caller.holding or caller.lending else nullcontext():
                await (self._running if self._running is not None else asyncio.wrap_future(self._future))
        except (RunCancelled, LeaseLost) as error:
            note_refusal(caller, error, self._ended_in)
            raise
        return self._value()

    def _check_loop(self) -> None:
        if self._running is not None:
            raise InvalidUpdateError("The task has not ended yet, and this coroutine must not block. Await the task.")

    # -- for those who do the work

    @property
    def settled(self) -> Future[T]:
        return self._future

    def settle(self, value: Any, error: BaseException | None, run: Run | None = None) -> None:
        self._ended_in = run
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


class _Work:
    """A call that somebody will do: a worker thread, or whoever needs the result first."""

    __slots__ = ("_context", "_do", "_taken")

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self._context = contextvars.copy_context()
        self._taken = threading.Lock()

    def claim(self) -> bool:
        """Return whether the caller performs it."""
        return self._taken.acquire(blocking=False)

    @property
    def is_claimed(self) -> bool:
        return self._taken.locked()

    def run(self) -> None:
        self._context.run(self._do)


class _Pool:
    """Worker threads for calls of plain functions: at most a few at once, over all tasks of the process."""

    def __init__(self) -> None:
        self.forget_threads()

    def forget_threads(self) -> None:
        self._waiting: deque[_Work] = deque()
        self._at_work: set[_Work] = set()
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, work: _Work) -> None:
        with self._lock:
            self._waiting.append(work)
            if self._threads >= DEFAULT_THREADS:
                return
            self._threads += 1
        workers.submit(self._work)

    def replace_thread(self, work: _Work) -> None:
        """Start another thread in place of the one at work on a call: its run is over, and it may never end."""
        with self._lock:
            if work not in self._at_work:
                return
            self._at_work.discard(work)
            if not self._waiting:
                self._threads -= 1
                return
        workers.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                work = self._waiting.popleft()
                self._at_work.add(work)
            if work.claim():
                work.run()
            with self._lock:
                if work not in self._at_work:
                    return  # another thread has its place
                self._at_work.discard(work)


_pool: Final = _Pool()
_under_way: Final[dict[tuple[object, JournalKey], Call]] = {}
"""The calls that have not ended, by where they are journalled."""
_lock = threading.Lock()
"""Held while it is decided which thread performs a call; never during a call or a save."""


def call_task(called: CalledFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture[Any]:
    """Start a task, or give what it gave. A call that was started before and has not ended is taken up."""
    caller = current_scope()
    if caller is None or caller.task is None:
        raise InvalidUpdateError(
            f"The task {called.name!r} was called outside a graph. Call it in an entrypoint or in a node."
        )
    key, given, _ = recall(caller, called.name, args, kwargs)
    future: TaskFuture[Any] = TaskFuture(caller)
    run = caller.run
    with _lock:
        place = _journal_of(run), key
        call = _under_way.get(place)
        if call is not None and call.may_be_taken_by(run):
            call.take(caller, given, future)
            return future
        entry = run.journal.get(key)  # not before: a call that ends meanwhile is there or here
        is_saved = entry is not None and not isinstance(entry, Unsaved)
        if entry is not None:
            check_given(caller.task, key, entry.given, given)
        if not is_saved:
            call = _under_way[place] = Call(called, args, kwargs, caller, place, given, future, entry)
            _known(run).add(call)
    if entry is not None and is_saved:
        future.settle(copy_container(entry.value), None)  # the node may change what it was given
    else:
        cast(Call, call).start()
    return future


def _journal_of(run: Run) -> object:
    """Return the registry of a run's calls: runs that continue each other share one journal."""
    return (scope_of(run.saver), run.line) if run.saver is not None and run.line is not None else id(run)


def _known(run: Run) -> Calls:
    if run.calls is None:
        run.calls = Calls()
    return run.calls


class Call:
    """One running call of a task function."""

    __slots__ = (
        "_args",
        "_called",
        "_counts",
        "_ended_in",
        "_entry",
        "_futures",
        "_given",
        "_kwargs",
        "_loop",
        "_outer",
        "_own_loop",
        "_place",
        "_recording",
        "_running",
        "_scope",
        "_thread_scope",
        "_times_taken",
        "_work",
        "ended",
    )

    def __init__(
        self,
        called: CalledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        caller: Scope,
        place: tuple[object, JournalKey],
        given: str,
        future: TaskFuture[Any],
        entry: JournalEntry | None,
    ) -> None:
        self._called = called
        self._args = args
        self._kwargs = kwargs
        self._scope = caller.copy()
        self._scope.task = CalledTask(cast(Task, caller.task), place[1])
        self._scope.holding = ()
        self._scope.refusals = {}  # per call, because another run may take the call over
        self._outer = caller.attempt
        """The attempt that wants it."""
        self._counts = caller.counts()
        """The call counters of the attempt that is waiting for the result."""
        self._place = place
        self._given = given
        self._entry = entry
        """The entry of a call that has returned and is not saved yet."""
        self._thread_scope: Scope | None = None
        """The copy of the scope in which the function runs, if it has a timeout."""
        self._futures = [future]
        self._times_taken = 0
        self._recording = False
        self._work: _Work | None = None
        self._loop: Any = None
        self._own_loop = False
        self._running: Any = None
        self._ended_in: Run | None = None
        """The run that owned the call when it ended; None while another run can take it over."""
        self.ended = future.settled
        """Done when the call has ended, with or without an error."""

    @property
    def planned_id(self) -> TaskId:
        """The task of the superstep to which it belongs."""
        return cast(Task, self._scope.task).planned_id

    @property
    def caller_id(self) -> TaskId:
        """The task that has made it: of the superstep, or another call."""
        return self._place[1][0]

    @property
    def is_at_work(self) -> bool:
        """True if it is a running plain function whose attempt was not abandoned."""
        return self._work is not None and self._work.is_claimed and not self._scope.abandoned

    # -- who wants it

    def may_be_taken_by(self, run: Run) -> bool:
        """Return whether a run may take the call: not if another run is recording it, or has voided it. Locked."""
        own = self._scope.run
        return run is own or not (self._recording or self._scope.refusals)

    def take(self, caller: Scope, given: str, future: TaskFuture[Any]) -> None:
        """Continue for another attempt: the one that made the call may have been abandoned. The lock is held.

        Raises NonDeterminismError if that one gave other arguments.
        """
        check_given(cast(Task, self._scope.task), self._place[1], self._given, given)
        self._counts = caller.counts()
        self._move(caller)
        self._futures.append(future)
        self._tell_future(future)

    def _move(self, caller: Scope) -> None:
        """Move to another attempt or run of the caller, with the calls that this one has made. The lock is held."""
        scope, before = self._scope, self._scope.run
        if scope.attempt is self._outer:
            scope.attempt = caller.attempt
        elif scope.attempt is not None:
            scope.attempt.outer = caller.attempt
        self._outer = caller.attempt
        self._times_taken += 1
        if caller.run is not before:
            for one in (scope, self._thread_scope) if self._thread_scope is not None else (scope,):
                one.run, one.checkpoint = caller.run, caller.checkpoint
            _known(caller.run).add(self)
            if before.calls is not None:
                before.calls.discard(self)
        if before.calls is not None:
            for call in before.calls.find_by_caller(cast(Task, scope.task)):
                inner = cast(Call, call)
                if inner._ended_in is None:
                    inner._move(scope)

    def _tell_future(self, future: TaskFuture[Any]) -> None:
        future._begin = self._work  # pyright: ignore[reportPrivateUsage]  # one module
        future._running = None if self._own_loop else self._running  # pyright: ignore[reportPrivateUsage]

    def _is_wanted_again(self, error: BaseException, times_taken: int) -> bool:
        """Return whether an error is due to an attempt or run that is over, and another one has taken the call."""
        with _lock:
            is_void = isinstance(void_if_refused(self._scope, error), RunCancelled | GraphDrained | LeaseLost)
            if is_void and self._times_taken != times_taken:
                self._scope.count_anew()
                self._scope.refusals.clear()
                self._recording = False
                return True
            self._forget()
            return False

    def _forget(self) -> None:
        """Remove the call from the registry. The lock is held."""
        self._ended_in = self._ended_in or self._scope.run
        if _under_way.get(self._place) is self:
            del _under_way[self._place]

    # -- its life

    def start(self) -> None:
        try:
            if self._called.is_coroutine:
                self._start_coroutine()
            else:
                self._work = _Work(self.run)
                self._tell_all()
                _pool.submit(self._work)
        except BaseException as error:
            self._end(None, error)
            raise

    def _tell_all(self) -> None:
        with _lock:
            for future in self._futures:
                self._tell_future(future)

    def call_off(self) -> None:
        """Prevent a plain function that has not begun from being called."""
        if self._work is not None and self._work.claim():
            self._end(None, RunCancelled(f"The task that called {self._called.name!r} ended before it was begun."))

    def _end(self, value: Any, error: BaseException | None) -> None:
        with _lock:
            self._forget()
            futures, self._futures = self._futures, []
            if isinstance(error, Exception):
                _, name, ordinal = self._place[1]
                self._counts.note_failed(name, self._given, ordinal)
        run = self._scope.run
        if run.calls is not None:
            run.calls.discard(self)
        for future in reversed(futures):  # each may change what it was given
            future.settle(value if future is futures[0] else copy_container(value), error, self._ended_in)
        if (step := run.superstep) is not None:
            step.call_ended()

    # -- a plain function

    def run(self) -> None:
        """Perform the call on this thread."""
        enter_scope(self._scope)
        while True:
            times_taken = self._times_taken
            try:
                value = self._done()
            except BaseException as error:
                if self._is_wanted_again(error, times_taken):
                    continue
                self._end(None, void_if_refused(self._scope, error))
            else:
                self._end(value, None)
            return

    def _done(self) -> Any:
        scope, key = self._scope, self._place[1]
        if self._entry is not None:
            with accept_saved(scope, key, self._entry):
                resolve(save_entry(scope, key, self._entry))
            self._tell(self._entry.value)
            return copy_container(self._entry.value)
        with step_events(scope, key):
            value = self._called_now() if self._is_simple else self._guarded()
            _check_is_result(self._called.name, value)
            resolve(record(scope, key, self._entry_of(value)))
        self._tell(value)
        return value

    def _entry_of(self, value: Any) -> JournalEntry:
        """Return the journal entry of a value. It is kept: if the save is refused, a later run may save it."""
        check_not_refused(self._scope)
        with _lock:
            self._recording = True
            self._entry = JournalEntry(self._given, copy_container(value))
            return self._entry

    def _called_now(self) -> Any:
        """Return the result of the function, if the calling task may still act."""
        check_open(self._scope, self._called.name)
        check_hold(self._scope, self._called.name)
        return self._called.function(*self._args, **self._kwargs)

    @property
    def _is_simple(self) -> bool:
        return self._called.guards is None and not self._scope.run.slots

    def _guarded(self) -> Any:
        core = self._tries()
        answer: Any = None
        with closing(core):  # what it holds is free before anybody hears of an error
            while True:
                try:
                    effect = core.send(answer)
                except StopIteration as stopped:
                    return stopped.value
                if type(effect) is Try:
                    answer = self._once() if effect.timeout is None else self._once_in_time(effect)
                elif type(effect) is Wait:
                    answer = wait(self._scope, effect.seconds)
                elif type(effect) is Take:
                    answer = take(effect.slots, self._scope)
                else:
                    answer = resolve(cast(Ask, effect).answer)

    def _once(self) -> Any:
        try:
            return _Value(self._called_now())
        except BaseException as error:
            return error

    def _once_in_time(self, effect: Try) -> Any:
        """Make one attempt on another thread, so that waiting for it can time out."""
        assert effect.timeout is not None
        with _lock:
            self._thread_scope = own = self._scope.copy_for_thread()
        return call_with_timeout(self._scope, own, self._called.name, effect.timeout, self._once, outlives_run=True)

    # -- a coroutine function

    def _start_coroutine(self) -> None:
        """Perform the call on the running loop, or on a private one."""
        import asyncio

        from statewright.runtime.concurrency.private_loop import borrow_loop

        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop, self._own_loop = borrow_loop(), True
            self._loop.call_soon_threadsafe(self._start_on_loop)
        else:
            self._start_on_loop()
            self._tell_all()

    def _start_on_loop(self) -> None:
        self._running = self._loop.create_task(self._run_async())
        self._running.add_done_callback(self._left_loop)

    def _left_loop(self, running: Any) -> None:
        if not self.ended.done():  # cancelled before it began
            import asyncio

            self._end(None, asyncio.CancelledError())
        if self._own_loop:
            from statewright.runtime.concurrency.private_loop import give_back

            give_back(self._loop, idle=True)

    def stop(self) -> bool:
        """Cancel the call if it is a coroutine, from any thread. Return whether it ends by that.

        Its superstep is over. A plain function goes on, and a later run may take it over.
        """
        if self._work is not None:
            _pool.replace_thread(self._work)
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed, and nothing on it goes on
            return False
        return self._loop.is_running()  # a node may have left one that it ran itself

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    @property
    def is_on_this_thread(self) -> bool:
        """True if the loop of this thread runs it: waiting here would deadlock."""
        import asyncio

        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _run_async(self) -> None:
        enter_scope(self._scope)
        while True:
            times_taken = self._times_taken
            try:
                value = await self._done_async()
            except GeneratorExit as error:  # the coroutine is dropped, maybe in a finaliser: settling takes a lock
                workers.hand_over(partial(self._end, None, error))
                raise
            except BaseException as error:
                if self._is_wanted_again(error, times_taken):
                    continue
                self._end(None, void_if_refused(self._scope, error))
            else:
                self._end(value, None)
            return

    async def _done_async(self) -> Any:
        scope, key = self._scope, self._place[1]
        if self._entry is not None:
            with accept_saved(scope, key, self._entry):
                await wait_for_async(save_entry(scope, key, self._entry))
            self._tell(self._entry.value)
            return copy_container(self._entry.value)
        with step_events(scope, key):
            value = await (self._awaited_now() if self._is_simple else self._guarded_async())
            await wait_for_async(record(scope, key, self._entry_of(value)))
        self._tell(value)
        return value

    async def _awaited_now(self) -> Any:
        """Return the result of the coroutine function, if the calling task may still act."""
        check_open(self._scope, self._called.name)
        await check_hold_async(self._scope, self._called.name)
        return await self._called.function(*self._args, **self._kwargs)

    async def _guarded_async(self) -> Any:
        from statewright.runtime.tasks.retries_async import Deadline, perform_waiting, tried_value

        core = self._tries()
        answer: Any = None
        with closing(core):  # what it holds is free before anybody hears of an error
            while True:
                try:
                    effect = core.send(answer)
                except StopIteration as stopped:
                    return stopped.value
                if type(effect) is not Try:
                    answer = await perform_waiting(self._scope, effect)
                    continue
                attempt = cast(Attempt, self._scope.attempt)
                deadline = Deadline(attempt, effect.timeout, self._called.name) if effect.timeout is not None else None
                answer = await tried_value(self._awaited_now(), deadline, _Value)

    # -- both

    def _tries(self) -> Generator[TaskEffect, Any, Any]:
        """The value, after as many tries as the policies allow."""
        scope, guards, run = self._scope, self._called.guards or Guards(), self._scope.run
        cache_key = self._cache_key() if guards.cache is not None and run.ports.cache is not None else None
        if cache_key is not None and (kept := (yield Ask(cast(Any, run.ports.cache).get(cache_key)))) is not None:
            return copy_container(kept[0])
        number = 1
        heartbeat_only = guards.timeout is not None and guards.timeout.heartbeat_only
        while True:
            attempt = Attempt(
                number, run.ports.clock, again=number > 1, heartbeat_only=heartbeat_only, outer=self._outer
            )
            scope.begin_attempt(attempt)
            tried: Any = yield from admitted(scope, guards, guards.timeout)
            if type(tried) is _Value:
                break
            delay = None if isinstance(tried, ENDS_THE_RUN) else chosen_delay(guards, number, tried)
            if delay is None:
                raise tried
            attempt.failed_task = scope.task
            if delay > 0 and not (yield Wait(delay)):
                raise tried
            number += 1
        if cache_key is not None and guards.cache is not None:
            ttl = guards.cache.ttl
            seconds = None if ttl is None else as_seconds(ttl)
            yield Ask(cast(Any, run.ports.cache).put(cache_key, (copy_container(tried.value),), ttl=seconds))
        return tried.value

    def _cache_key(self) -> CacheKey:
        policy = cast(Guards, self._called.guards).cache
        key_func = policy.key_func if policy is not None else None
        given = self._given if key_func is None else fingerprint(key_func(*self._args, **self._kwargs))
        function = inspect.unwrap(self._called.function)
        path = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        return CacheKey(f"{path}:{self._called.name}", given)

    def _tell(self, value: Any) -> None:
        scope = self._scope
        if scope.run.watch is not None and self._called.shows_result and not scope.abandoned:
            emit_task_event("call_finished", scope, (self._called.name, copy_container(value)))


def _check_is_result(name: str, value: Any) -> None:
    """Raise InvalidUpdateError if a plain function returned an awaitable, because the engine would never await it."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidUpdateError(
            f"The task {name!r} is a plain function, but it returned an awaitable ({type(value).__name__!r}). "
            f"Define it with `async def`."
        )


class _Value:
    """The result of a call, as opposed to an exception."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _forget_calls() -> None:
    """The threads that did the work are not in a forked process."""
    global _lock
    _lock = threading.Lock()
    _under_way.clear()
    _pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_calls)
