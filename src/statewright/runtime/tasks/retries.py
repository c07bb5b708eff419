"""The attempts at one task that has policies: a small core of the same kind as the loop.

`attempts` is a generator. It yields what is to be done, is sent what came of it, and decides; `perform_guarded` does
it with plain calls, `attempts_async.perform_guarded_async` on an event loop. Tasks without policies never come here.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar, cast

from statewright.cache import CacheKey
from statewright.channels import MessageBatch, copy_update, without_own_ids
from statewright.checkpoint import Checkpoint, Pending, Task, TaskResult, TimedTask, TimeLimit
from statewright.clock import Clock, as_seconds, wait_until
from statewright.errors import CircuitOpen, NodeTimeoutError, RateLimited, RunCancelled, add_note
from statewright.fingerprint import fingerprint
from statewright.futures import SafeEvent, resolve
from statewright.graph import Graph
from statewright.ids import CheckpointId, TaskId
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.core.graph_migration import leads_to_nodes, renamed_target
from statewright.runtime.core.program import NodeProgram, Program
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Circuit, Rate, Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.execute import ENDS_THE_RUN, asked, begin, conclude, given, perform, reported, settle
from statewright.runtime.tasks.policies import NO_GUARDS, Guards
from statewright.runtime.tasks.scope import Scope, enter_scope
from statewright.runtime.tasks.standing import end_of, reason_to_wait_no_more, void_if_refused, woken_by_the_end
from statewright.state import Writes

T = TypeVar("T")
LONG_WAIT: Final = 10.0
"""Delays before the next attempt that are longer, in seconds, are logged, so that the run does not look dead."""


class Try:
    """Call the node once. Sent back: its result, or what it raised."""

    __slots__ = ("timeout",)

    def __init__(self, timeout: TimeLimit | None) -> None:
        self.timeout = timeout


class Wait:
    """Wait for some time. Sent back: True; False if the run was cancelled meanwhile."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Take:
    """Wait for a place among those that may be at work at once. Sent back: whether there is one."""

    __slots__ = ("slots",)

    def __init__(self, slots: Slots) -> None:
        self.slots = slots


class Ask:
    """Wait for the answer of a saver or a cache. Sent back: the answer."""

    __slots__ = ("answer",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer


TaskEffect = Try | Wait | Take | Ask
Attempts = Generator[TaskEffect, Any, Outcome]
Tried = TaskResult | BaseException


def attempts(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Attempts:
    """Attempt a task until it succeeds, or its policies allow no further attempt."""
    guards = node.guards or NO_GUARDS
    cache = scope.run.ports.cache
    key = cache_key(scope, node, task, checkpoint) if guards.cache is not None and cache is not None else None
    for one in former_keys(scope, node, key) if key is not None else ():
        kept = yield Ask(cast(Any, cache).get(one))
        if kept is not None and leads_to_nodes(scope.run.program, kept[1]):
            return from_cache(scope, node, task, checkpoint, kept)
    number = first = scope.run.attempts.get(task.id, 0) + 1 if scope.run.attempts else 1
    if first > 1 and (left := left_to_wait(scope.run, task)) > 0 and not (yield Wait(left)):
        return settle(scope, node, task, cancelled(scope))
    timeout = task.timeout if type(task) is TimedTask else guards.timeout
    heartbeat_only = timeout is not None and timeout.heartbeat_only
    while True:
        attempt = Attempt(number, scope.run.ports.clock, again=number > first, heartbeat_only=heartbeat_only)
        scope.begin_attempt(attempt)
        tried: Tried = yield from admitted(scope, guards, timeout)
        if isinstance(tried, TaskResult):
            break
        delay = None if isinstance(tried, ENDS_THE_RUN) else chosen_delay(guards, number, tried)
        if delay is None:
            return settle(scope, node, task, tried)
        attempt.failed_task = task
        emit_task_event("attempt_failed", scope, (tried, delay))
        if delay > LONG_WAIT:
            _log_wait(task.node, number, delay, tried)
        yield from note_attempt(scope, task, number, delay)
        if not ((yield Wait(delay)) if delay > 0 else reason_to_wait_no_more(scope) is None):
            return settle(scope, node, task, cancelled(scope))
        number += 1
    if key is not None and guards.cache is not None:
        ttl = guards.cache.ttl
        kept = (_cached_writes(tried.writes, checkpoint), tuple(tried.targets), tried.goto)
        yield Ask(cast(Any, scope.run.ports.cache).put(key, kept, ttl=None if ttl is None else as_seconds(ttl)))
    return reported(scope, task, tried)


def chosen_delay(guards: Guards, number: int, tried: object) -> float | None:
    """The delay before the next attempt; None if there is none. What a policy raises follows the attempt's error."""
    try:
        return guards.chosen_delay(number, tried)
    except Exception as error:
        if isinstance(tried, BaseException) and error.__context__ is None:
            error.__context__ = tried
        raise


def admitted(scope: Scope, guards: Guards, timeout: TimeLimit | None) -> Generator[TaskEffect, Any, Tried]:
    """Make one attempt within the limits, and return its outcome."""
    clock, before = scope.run.ports.clock, scope.holding
    # Whoever runs tasks beside each other may have taken the places in the limits of the run already.
    limits = guards.slots if before or scope.is_inline else (*scope.run.slots, *guards.slots)
    try:
        for rate in guards.rates:
            seconds = rate.reserve(clock.monotonic())
            if seconds > 0 and not (yield from _wait_for_token(rate, seconds)):
                return cancelled(scope)
        for slots in limits:
            if not (yield Take(slots)):
                return cancelled(scope)
            scope.holding = (*scope.holding, slots)
        return (yield from _through_circuits(scope, guards, timeout))
    except (RateLimited, CircuitOpen) as error:
        return error
    except GeneratorExit:  # maybe in a finaliser: another thread gives the places back
        taken, scope.holding = scope.holding[len(before) :], before
        workers.hand_over(partial(_give_all, taken))
        raise
    finally:
        taken, scope.holding = scope.holding[len(before) :], before
        _give_all(taken)


def _wait_for_token(rate: Rate, seconds: float) -> Generator[TaskEffect, Any, bool]:
    """Wait for a reserved token; return False, and refund it, if the task must not wait any longer."""
    try:
        has_passed = yield Wait(seconds)
    except GeneratorExit:  # maybe in a finaliser, where no lock may be taken
        workers.hand_over(rate.refund)
        raise
    except BaseException:
        rate.refund()
        raise
    if not has_passed:
        rate.refund()
    return has_passed


def _through_circuits(scope: Scope, guards: Guards, timeout: TimeLimit | None) -> Generator[TaskEffect, Any, Tried]:
    """Make one attempt, unless a circuit breaker refuses. Breakers count the outcome, unless the run itself ended."""
    clock, entered = scope.run.ports.clock, list[Circuit]()
    tried: Any = None
    try:
        for circuit in guards.circuits:
            circuit.enter(clock.monotonic())
            entered.append(circuit)
        tried = void_if_refused(scope, (yield Try(timeout)))
    except GeneratorExit:  # maybe in a finaliser, where no lock may be taken
        workers.hand_over(partial(_count_all, tuple(entered), None, clock))
        entered.clear()
        raise
    finally:
        _count_all(entered, tried, clock)
    return tried


def _give_all(taken: Sequence[Slots]) -> None:
    for slots in taken:
        slots.release()


def _count_all(entered: Sequence[Circuit], tried: object, clock: Clock) -> None:
    """Count the end of an attempt; None if it is unknown."""
    if entered:
        with ExitStack() as all_count:  # what one raises keeps none of the others from counting
            for circuit in entered:
                all_count.callback(_count, circuit, tried, clock)


def _count(circuit: Circuit, tried: object, clock: Clock) -> None:
    if tried is None or isinstance(tried, ENDS_THE_RUN):
        circuit.let_go()
        return
    try:
        circuit.record(tried if isinstance(tried, Exception) else None, clock.monotonic())
    except BaseException:
        circuit.let_go()
        raise


def left_to_wait(run: Run, task: Task) -> float:
    """Return the seconds until the next attempt of a task that had failed before this call."""
    due = run.retries.get(task.id)
    return (due - run.ports.clock.now()).total_seconds() if due is not None else 0.0


def note_attempt(scope: Scope, task: Task, number: int, delay: float) -> Generator[TaskEffect, Any, None]:
    """Save the number of failed attempts and the time of the next one, so that a crash does not reset them."""
    run = scope.run
    if run.saver is not None and run.line is not None and scope.checkpoint is not None and not run.saves_at_rest:
        now = run.ports.clock.now()
        due = now + timedelta(seconds=delay)
        known = Pending(attempts={TaskId(task.id): number}, retries={TaskId(task.id): due})
        yield Ask(run.saver.save_results(run.line, CheckpointId(scope.checkpoint.id), known, hold=run.hold(now)))


def cache_key(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> CacheKey:
    """Return the cache key of the task: the node with the version of its code, and its input."""
    described = node.node
    assert described is not None
    state = node.read(checkpoint.values, task.arg)
    key_func = described.cache_policy.key_func if described.cache_policy is not None else None
    code = getattr(described.action, "__qualname__", type(described.action).__qualname__)
    name = cached_name(scope.run.program.graph, node.name)
    version = f"{getattr(described.action, '__module__', '')}.{code}@{described.version or ''}"
    return CacheKey(name, fingerprint((version, key_func(state) if key_func is not None else state)))


def former_keys(scope: Scope, node: NodeProgram, key: CacheKey) -> Sequence[CacheKey]:
    """The key, and those of the node's former names."""
    aliases = node.node.aliases if node.node is not None else ()
    return [key, *(CacheKey(cached_name(scope.run.program.graph, alias), key.input) for alias in aliases)]


def cached_name(graph: Graph, node: str) -> str:
    """The name under which the results of a node are kept."""
    return f"{graph.name}/{node}"


def _cached_writes(writes: Writes, checkpoint: Checkpoint) -> Writes:
    """Return writes as a cache keeps them: nothing that the node still has, messages without ids of this task."""

    def cached(name: str, update: Any) -> Any:
        if type(update) is MessageBatch:
            return without_own_ids(update, checkpoint.values.get(name))
        return copy_update(update)

    if isinstance(writes, dict):
        return {name: cached(name, update) for name, update in writes.items()}
    return [(name, cached(name, update)) for name, update in writes]


def _prepared(program: Program, writes: Writes, task: Task) -> Writes:
    """Return cached writes in the form of a task's own, with message ids that derive from it."""
    preparing = {name: channel for name, channel in program.merging.items() if channel.prepares}
    if not preparing:
        return writes
    if isinstance(writes, dict):
        return {
            name: preparing[name].prepare(update, task.id) if name in preparing else update
            for name, update in writes.items()
        }
    return [  # several batches of one task: each has ids of its own
        (name, preparing[name].prepare(update, f"{task.id}-{place}") if name in preparing else update)
        for place, (name, update) in enumerate(writes)
    ]


def from_cache(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, kept: Any) -> Outcome:
    """The result of a task whose node was called with the same input before."""
    writes, targets, goto = kept
    targets = [renamed_target(scope.run.program, target) for target in targets]
    attempt = Attempt(0, scope.run.ports.clock)
    scope.begin_attempt(attempt)
    begin(scope, node, task, checkpoint)
    scope.mutation_snapshot = None
    writes = _prepared(scope.run.program, writes, task)
    return reported(scope, task, TaskResult(task, writes, targets, goto=goto))


def cancelled(scope: Scope) -> RunCancelled:
    """Return the outcome of a task that must not wait any longer before it begins."""
    return RunCancelled(reason_to_wait_no_more(scope) or "cancelled")


def failed_around(scope: Scope, node: NodeProgram, task: Task, error: BaseException) -> Outcome:
    """The outcome of a task that was ended by what was raised around its attempts, and not by its node.

    No error handler is asked: that a policy, a cache or a saver does not work is no answer of the node.
    """
    if not isinstance(error, Exception) and scope.sibling_group is None:
        raise error  # it ends the process, or the run
    step = scope.checkpoint.step + 1 if scope.checkpoint else 0
    add_note(error, f"in node {node.name!r}, step {step}, around its attempts")
    return reported(scope, task, Failure(task, error))


# -- performed by plain calls


def performer(run: Run) -> Callable[[Scope, NodeProgram, Task, Checkpoint], Outcome]:
    """Return the function that runs plain tasks of a run; a direct one if no task needs guards."""

    def perform_any(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
        return (perform if node.guards is None else perform_guarded)(scope, node, task, checkpoint)

    return perform_guarded if run.guards_all else perform_any


def perform_guarded(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
    """Run a task with policies, whose node is a plain function."""
    core = attempts(scope, node, task, checkpoint)
    answer: Any = None
    try:
        while True:
            try:
                effect = core.send(answer)
            except StopIteration as stopped:
                return stopped.value
            answer = _performed(scope, node, task, checkpoint, effect)
    except BaseException as error:
        core.close()  # what it holds is free before anybody hears of the error
        return failed_around(scope, node, task, error)
    finally:
        core.close()
        scope.end_attempts()


def _performed(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, effect: TaskEffect) -> Any:
    if type(effect) is Try:
        if effect.timeout is None:
            return tried(scope, node, task, checkpoint)
        return _tried_in_time(scope, node, task, checkpoint, effect.timeout)
    if type(effect) is Wait:
        return wait(scope, effect.seconds)
    if type(effect) is Take:
        return take(effect.slots, scope)
    return resolve(cast(Ask, effect).answer)


def tried(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Tried:
    """Return the outcome of one call of a plain function."""
    try:
        state = begin(scope, node, task, checkpoint)
        answer = node.call(*given(node, state), **asked(node.asks, scope))
        return conclude(scope, node, task, checkpoint, answer)
    except BaseException as error:
        return error


def wait(scope: Scope, seconds: float) -> bool:
    """Wait on this thread. Return False if the task must not wait any longer."""
    woken = SafeEvent()  # a signal handler may cancel the run
    with woken_by_the_end(scope, woken.set):
        scope.run.ports.clock.wait(woken, seconds)
    return reason_to_wait_no_more(scope) is None


def take(slots: Slots, scope: Scope) -> bool:
    """Wait for a slot, on this thread; False if the task must not wait any longer.

    Where a coroutine has called a graph with plain `invoke`, whoever has the slot may run on the loop that stands still
    meanwhile. So nobody waits there for a place of the run, but works above its `max_concurrency` for a moment.
    """
    waiting = _Waiting()
    if slots.acquire(waiting.offered):
        return True
    if slots in scope.run.slots and _stops_a_loop():
        if not waiting.leave():
            slots.overdraw()
        return True
    try:
        with woken_by_the_end(scope, waiting.woken.set):
            waiting.woken.wait()
    except BaseException:
        if waiting.leave():
            slots.release()
        raise
    if not waiting.leave():
        return False
    if reason_to_wait_no_more(scope) is not None:
        slots.release()
        return False
    return True


class _Waiting:
    """A thread that waits for a slot, until it has one or leaves."""

    __slots__ = ("_has_it", "_has_left", "_lock", "woken")

    def __init__(self) -> None:
        self.woken = SafeEvent()  # a signal handler may cancel the run
        self._lock = threading.Lock()
        self._has_it = False
        self._has_left = False

    def offered(self) -> bool:
        """Take the slot, unless the waiter has left."""
        with self._lock:
            if self._has_left:
                return False
            self._has_it = True
        self.woken.set()
        return True

    def leave(self) -> bool:
        """Wait no more; whether the slot is there."""
        with self._lock:
            self._has_left = True
            return self._has_it


def _log_wait(node: str, number: int, delay: float, error: object) -> None:
    """Log a long wait, which a service may have asked for by Retry-After."""
    logging.getLogger("statewright").warning(
        "Node %r waits %.0f seconds before attempt %d: %s: %s", node, delay, number + 1, type(error).__name__, error
    )


@contextmanager
def suspended_slots(scope: Scope) -> Generator[None]:
    """Release the slots of a task while it waits for its own children, so that limits cannot deadlock."""
    scope.suspend_slots()
    try:
        yield
    except GeneratorExit:  # maybe in a finaliser, which must not wait for a slot
        scope.forgo()
        raise
    except BaseException:
        _take_back(scope)
        raise
    else:
        _take_back(scope)


def _take_back(scope: Scope) -> None:
    for slots in scope.resumed_slots():
        if take(slots, scope):  # else the run ends, and what the task still does has no effect
            scope.holding = (*scope.holding, slots)
        else:
            scope.go_without(slots)


def _stops_a_loop() -> bool:
    """True if an event loop runs on this thread: a coroutine has called a function that blocks."""
    if "asyncio" not in sys.modules:
        return False
    from statewright.async_futures import is_on_loop

    return is_on_loop()


def _tried_in_time(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, timeout: TimeLimit) -> Tried:
    """Return the outcome of one call, made on another thread so that waiting for it can time out."""
    own = scope.copy_for_thread()
    brought = call_with_timeout(scope, own, node.name, timeout, lambda: tried(own, node, task, checkpoint))
    scope.input = own.input
    return brought


def call_with_timeout(
    scope: Scope, own: Scope, name: str, timeout: TimeLimit, function: Callable[[], T], *, outlives_run: bool = False
) -> T | NodeTimeoutError | RunCancelled:
    """Call a function on another thread, in the scope `own`; return its outcome, or why it is waited for no longer.

    Waiting ends with the timeout and with the run. A function that `outlives_run` is only given up at its timeout:
    another attempt, or a later run, may take it over.
    """
    attempt = cast(Attempt, scope.attempt)
    woken = SafeEvent()  # a signal handler may cancel the run
    brought: list[T] = []

    def call() -> None:
        enter_scope(own)
        brought.append(function())
        woken.set()

    began = attempt.clock.monotonic()
    context = contextvars.copy_context()
    workers.submit(lambda: context.run(call))
    with woken_by_the_end(scope, woken.set) if not outlives_run else nullcontext():
        while not brought:
            due, kind, limit = next_timeout(attempt, timeout, began)
            reason = end_of(scope) if not outlives_run else None
            if reason is not None or due <= attempt.clock.monotonic():
                attempt.abandoned = True
                own.detach()
                if brought:
                    break
                return RunCancelled(reason) if reason is not None else NodeTimeoutError(name, kind, limit)
            wait_until(attempt.clock, woken, due)
            woken.clear()
    return brought[0]


def next_timeout(attempt: Attempt, timeout: TimeLimit, began: float) -> tuple[float, str, float]:
    """Return when the attempt is over unless it ends or shows a sign of life, by which timeout, and how long that is.

    `began` and the first item are instants of `Clock.monotonic`.
    """
    due: list[tuple[float, str, float]] = []
    if timeout.run is not None:
        due.append((began + timeout.run, "run", timeout.run))
    if timeout.idle is not None:
        due.append((attempt.idle_since(began) + timeout.idle, "idle", timeout.idle))
    return min(due)
