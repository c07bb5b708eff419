"""Calls of `@task` functions: started at once, beside each other, each done once.

A plain function goes to a few worker threads; whoever asks for a result that nobody has begun to work on does the
work, so that waiting cannot deadlock. A coroutine function becomes an asyncio task of the running loop, or runs on a
private loop where none runs.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet, ref

from statewright.cache import CacheKey
from statewright.checkpoint import NO_ARG, JournalEntry, JournalKey, Task
from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidUpdateError, NodeTimeoutError
from statewright.fingerprint import fingerprint
from statewright.graph import CachePolicy, RetryPolicy, TimeoutPolicy, is_coroutine_function
from statewright.graph.policy import as_retries, as_timeout
from statewright.ids import TaskId
from statewright.promise import SafeEvent, resolved
from statewright.runtime.attempt import ENDS_THE_RUN
from statewright.runtime.attempts import (
    Ask,
    Take,
    TaskEffect,
    Try,
    Wait,
    admitted,
    chosen_delay,
    lent,
    take,
    time_left,
    wait,
)
from statewright.runtime.guards import Guards
from statewright.runtime.journal import recall, record, told, wait_for, wait_for_async
from statewright.runtime.scope import Attempt, Scope, current_scope, enter_scope
from statewright.runtime.standing import check_hold, check_hold_async, check_open
from statewright.runtime.worker_threads import DEFAULT_THREADS, workers

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
        """`shows_result`: whether readers of the stream mode `updates` get what a call gives."""
        self.shows_result = shows_result
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_coroutine = is_coroutine_function(function)
        retries, timeout = as_retries(retry_policy), as_timeout(timeout)
        has_guards = retries or timeout or cache_policy
        self.guards = Guards(retries=retries, timeout=timeout, cache=cache_policy) if has_guards else None


class CalledTask(Task):
    """A call of a task function, as a task: it asks, steps and calls subgraphs under a name of its own."""

    __slots__ = ("_id",)

    def __init__(self, caller: Task, key: JournalKey) -> None:
        super().__init__(caller.node, NO_ARG, caller.origin, caller.position)
        caller_id, name, ordinal = key
        self._id = TaskId(f"{caller_id}:{name}.{ordinal}")

    @property
    def id(self) -> TaskId:
        return self._id


class TaskFuture(Generic[T]):
    """The result of a task that may not be there yet."""

    __slots__ = ("_begin", "_caller", "_future", "_running")

    def __init__(self, caller: Scope) -> None:
        self._caller = caller
        self._future: Future[T] = Future()
        self._begin: _Work | None = None
        """Does the work, if nobody has begun to."""
        self._running: Any = None
        """The asyncio task that does the work, if one does."""

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """The result, waited for. Raises what the task raised, TimeoutError after `timeout` seconds."""
        if not self._future.done():
            self._check_loop()
            with lent(self._caller):
                self._help(timeout)
                return self._future.result(timeout)
        return self._future.result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised, waited for; None if it gave a result."""
        if not self._future.done():
            self._check_loop()
            with lent(self._caller):
                self._help(timeout)
                return self._future.exception(timeout)
        return self._future.exception()

    def _help(self, timeout: float | None) -> None:
        """Do the work here, if nobody has begun to and there is time."""
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

        from statewright.runtime.attempts_async import lent_async

        if self._future.done():
            return self._future.result()
        caller = self._caller
        async with lent_async(caller) if caller.holding or caller.lending else nullcontext():
            await (self._running if self._running is not None else asyncio.wrap_future(self._future))
        return self._future.result()

    def _check_loop(self) -> None:
        if self._running is not None:
            raise InvalidUpdateError("The task has not ended yet, and this coroutine must not block. Await the task.")

    # -- for those who do the work

    def settle(self, value: Any, error: BaseException | None) -> None:
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
        """Whether the caller is the one to do it."""
        return self._taken.acquire(blocking=False)

    def run(self) -> None:
        self._context.run(self._do)


class _Pool:
    """Worker threads for calls of plain functions: at most a few at once, over all tasks of the process."""

    def __init__(self) -> None:
        self._waiting: deque[_Work] = deque()
        self._working = 0
        self._lock = threading.Lock()

    def submit(self, work: _Work) -> None:
        with self._lock:
            self._waiting.append(work)
            if self._working >= DEFAULT_THREADS:
                return
            self._working += 1
        workers.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working -= 1
                    return
                work = self._waiting.popleft()
            if work.claim():
                work.run()


_pool = _Pool()


def call_task(called: CalledFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture[Any]:
    """Start a task, or give what it gave."""
    caller = current_scope()
    if caller is None or caller.task is None:
        raise InvalidUpdateError(
            f"The task {called.name!r} was called outside a graph. Call it in an entrypoint or in a node."
        )
    key, given, entry = recall(caller, called.name, args, kwargs)
    future: TaskFuture[Any] = TaskFuture(caller)
    if entry is not None:
        future.settle(entry.value, None)
        return future
    scope = caller.copy()
    scope.task = CalledTask(caller.task, key)
    scope.holding = ()
    call = _Call(called, args, kwargs, scope, key, given, future)
    if called.is_coroutine:
        call.start_coroutine()
    else:
        future._begin = _Work(call.run)  # pyright: ignore[reportPrivateUsage]  # one module
        _pool.submit(future._begin)  # pyright: ignore[reportPrivateUsage]
    return future


class _Call:
    """One call of a task function."""

    __slots__ = ("_args", "_called", "_future", "_given", "_key", "_kwargs", "_scope")

    def __init__(
        self,
        called: CalledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        scope: Scope,
        key: JournalKey,
        given: str,
        future: TaskFuture[Any],
    ) -> None:
        self._called = called
        self._args = args
        self._kwargs = kwargs
        self._scope = scope
        self._key = key
        self._given = given
        self._future = future

    # -- a plain function

    def run(self) -> None:
        """Do the work, on the present thread."""
        enter_scope(self._scope)
        try:
            with told(self._scope, *self._key[1:]):
                value = self._called_now() if self._is_simple else self._guarded()
                wait_for(record(self._scope, self._key, JournalEntry(self._given, value)))
            self._tell(value)
        except BaseException as error:
            self._future.settle(None, error)
            return
        self._future.settle(value, None)

    def _called_now(self) -> Any:
        """What the function gives, if the task that wants it may still act."""
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
                    answer = resolved(cast(Ask, effect).answer)

    def _once(self) -> Any:
        try:
            return _Value(self._called_now())
        except BaseException as error:
            return error

    def _once_in_time(self, effect: Try) -> Any:
        """One try on another thread, so that waiting for it can end."""
        attempt, timeout = cast(Attempt, self._scope.attempt), effect.timeout
        assert timeout is not None
        ended = SafeEvent()  # a signal handler may interrupt the wait
        brought: list[Any] = []
        own, context = self._scope.copy(), contextvars.copy_context()

        def call() -> None:
            enter_scope(own)
            brought.append(self._once())
            ended.set()

        began = attempt.clock.monotonic()
        workers.submit(lambda: context.run(call))
        while not ended.is_set():
            remaining, kind, limit = time_left(attempt, timeout, began)
            if remaining <= 0:
                attempt.abandoned = True
                return NodeTimeoutError(self._called.name, kind, limit)
            attempt.clock.wait(ended, remaining)
        return brought[0]

    # -- a coroutine function

    def start_coroutine(self) -> None:
        """Do the work on the running loop, or on a private one."""
        import asyncio

        from statewright.runtime.private_loop import borrow_loop, give_back

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            own = borrow_loop()
            asyncio.run_coroutine_threadsafe(self._run_async(), own)
            self._future.add_done_callback(lambda _: give_back(own, idle=True))
        else:
            running = loop.create_task(self._run_async())
            self._future._running = running  # pyright: ignore[reportPrivateUsage]
            _children_of(self._future._caller, asyncio.current_task()).add(running)  # pyright: ignore[reportPrivateUsage]

    async def _run_async(self) -> None:
        enter_scope(self._scope)
        try:
            with told(self._scope, *self._key[1:]):
                value = await (self._awaited_now() if self._is_simple else self._guarded_async())
                await wait_for_async(record(self._scope, self._key, JournalEntry(self._given, value)))
            self._tell(value)
        except GeneratorExit as error:  # the coroutine is dropped, maybe in a finaliser: settling takes a lock
            workers.hand_over(partial(self._future.settle, None, error))
            raise
        except BaseException as error:
            self._future.settle(None, error)
            return
        self._future.settle(value, None)

    async def _awaited_now(self) -> Any:
        """What the coroutine function gives, if the task that wants it may still act."""
        check_open(self._scope, self._called.name)
        await check_hold_async(self._scope, self._called.name)
        return await self._called.function(*self._args, **self._kwargs)

    async def _guarded_async(self) -> Any:
        from statewright.runtime.attempts_async import Deadline, perform_waiting, tried_value

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
        cache_key = self._cache_key() if guards.cache is not None and run.cache is not None else None
        if cache_key is not None and (kept := (yield Ask(cast(Any, run.cache).get(cache_key)))) is not None:
            return kept[0]
        number, outer = 1, scope.attempt
        heartbeat_only = guards.timeout is not None and guards.timeout.heartbeat_only
        while True:
            scope.begin_attempt(
                Attempt(number, run.clock, again=number > 1, heartbeat_only=heartbeat_only, outer=outer)
            )
            tried: Any = yield from admitted(scope, guards, guards.timeout)
            if type(tried) is _Value:
                break
            delay = None if isinstance(tried, ENDS_THE_RUN) else chosen_delay(guards, number, tried)
            if delay is None or (delay > 0 and not (yield Wait(delay))):
                raise tried
            number += 1
        if cache_key is not None and guards.cache is not None:
            ttl = guards.cache.ttl
            seconds = None if ttl is None else as_seconds(ttl)
            yield Ask(cast(Any, run.cache).put(cache_key, (tried.value,), ttl=seconds))
        return tried.value

    def _cache_key(self) -> CacheKey:
        policy = cast(Guards, self._called.guards).cache
        key_func = policy.key_func if policy is not None else None
        given = self._given if key_func is None else fingerprint(key_func(*self._args, **self._kwargs))
        function = inspect.unwrap(self._called.function)
        return CacheKey(f"{function.__module__}.{self._called.name}", given)

    def _tell(self, value: Any) -> None:
        watch = self._scope.run.watch
        if watch is not None and self._called.shows_result and not self._scope.abandoned:
            watch.call_finished(self._scope, self._called.name, value)


_children: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()
"""The asyncio tasks that an asyncio task has started: when it ends, it takes along those that it did not wait for."""


def _children_of(scope: Scope, caller: Any) -> WeakSet[Any]:
    """The children of an asyncio task; the scope remembers those of the one that asked last."""
    known = scope.children
    if known is not None and known[0]() is caller:
        return known[1]
    children = _children.get(caller)
    if children is None:
        started: WeakSet[Any] = WeakSet()
        children = _children[caller] = started
        caller.add_done_callback(lambda _ended: _cancel_all(started))  # pyright: ignore[reportUnknownLambdaType]
    scope.children = (ref(caller), children)
    return children


def _cancel_all(tasks: WeakSet[Any]) -> None:
    for one in tasks:
        one.cancel()


class _Value:
    """What a call gave, told from what it raised."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
