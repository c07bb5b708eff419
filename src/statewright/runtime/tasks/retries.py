"""The attempts at a task that has policies, as a generator that makes the decisions, like `core.loop`.

Retries, timeouts, rate limits, concurrency limits, circuit breakers and the cache interact: a retry needs another token
and another slot, a timeout must not include the time spent in a queue, a breaker must record every outcome. So that
none of this is written twice, for threads and for event loops, a generator makes the decisions. It yields an effect,
receives the result of the effect, and continues. `retries_sync.perform_attempts` performs the effects with plain calls,
`retries_async.perform_attempts_async` on an event loop. Tasks without policies do not use this module.

An attempt passes the rate limits first, then the concurrency limits, then the circuit breakers, and then calls the node
with its timeout. Slots of concurrency limits are acquired in a fixed order, so that two tasks cannot deadlock, and are
released between attempts.

A finaliser may close the generator, on any thread and in the middle of any code, where taking a lock could deadlock.
Therefore each `except GeneratorExit` hands its clean-up over to another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any, Final, cast

from statewright.cache import Cache
from statewright.checkpoint import Checkpoint, Pending, Task, TaskResult, TimedTask, TimeLimit
from statewright.clock import Clock, as_seconds
from statewright.errors import CircuitOpen, RateLimited, RunCancelled, StorageUnavailable, add_note
from statewright.ids import CheckpointId, TaskId
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Circuit, Rate, Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.execute import RUN_ENDING_ERRORS, begin_task, report_outcome, settle_error
from statewright.runtime.tasks.liveness import override_if_refused, reason_to_stop_waiting
from statewright.runtime.tasks.policies import NO_POLICIES, NodePolicies
from statewright.runtime.tasks.result_cache import CacheEntry, cache_keys, entry_of, is_usable, result_of
from statewright.runtime.tasks.scope import Scope

LONG_WAIT: Final = 10.0
"""If the delay before the next attempt is longer than this number of seconds, it is logged, so that the run does not
look as if it hung."""


class Try:
    """Call the node once. Sent back: the result of the task, or the exception that was raised."""

    __slots__ = ("timeout",)

    def __init__(self, timeout: TimeLimit | None) -> None:
        self.timeout = timeout


class Wait:
    """Wait for a number of seconds. Sent back: True after that time; False if the task must stop waiting."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class AcquireSlot:
    """Acquire a slot of a concurrency limit. Sent back: True once acquired; False if the task must stop waiting."""

    __slots__ = ("slots",)

    def __init__(self, slots: Slots) -> None:
        self.slots = slots


class AwaitReply:
    """Wait for the reply of a saver or a cache, which may be a future. Sent back: the reply."""

    __slots__ = ("reply",)

    def __init__(self, reply: Any) -> None:
        self.reply = reply


CACHE_UNAVAILABLE: Final = object()
"""The reply of a cache whose storage is not available."""
TaskEffect = Try | Wait | AcquireSlot | AwaitReply
AttemptResult = TaskResult | BaseException


def attempt_task(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint
) -> Generator[TaskEffect, Any, Outcome]:
    """Make attempts at a task until one succeeds or the policies allow no further attempt, and return the outcome."""
    policies = node.policies or NO_POLICIES
    # The cache may have a result for the same input.
    cache = cast(Cache, scope.run.ports.cache)
    cache_policy = policies.cache if scope.run.ports.cache is not None else None
    keys = cache_keys(scope, node, task, checkpoint) if cache_policy is not None else []
    is_cache_available = True
    for key in keys:
        entry = yield from ask_cache(partial(cache.get, key))
        if entry is CACHE_UNAVAILABLE:
            is_cache_available = False
            break
        if entry is not None and is_usable(scope.run.program, entry):
            return _settle_from_cache(scope, node, task, checkpoint, entry)
    # In an earlier run an attempt may have failed, and the time of the next attempt was saved.
    number = first_number = scope.run.attempts.get(task.id, 0) + 1 if scope.run.attempts else 1
    if first_number > 1 and (seconds := _seconds_until_due(scope.run, task)) > 0 and not (yield Wait(seconds)):
        return settle_error(scope, node, task, cancellation_error(scope))
    timeout = task.timeout if type(task) is TimedTask else policies.timeout
    heartbeat_only = timeout is not None and timeout.heartbeat_only
    while True:
        attempt = Attempt(number, scope.run.ports.clock, is_repeat=number > first_number, heartbeat_only=heartbeat_only)
        scope.begin_attempt(attempt)
        result: AttemptResult = yield from attempt_within_limits(scope, policies, timeout)
        if isinstance(result, TaskResult):
            break
        delay = retry_delay(policies, number, result)
        if delay is None:
            return settle_error(scope, node, task, result)
        attempt.failed_task = task
        emit_task_event("attempt_failed", scope, (result, delay))
        if delay > LONG_WAIT:
            _log_wait(task.node, number, delay, result)
        yield from _save_attempt(scope, task, number, delay)
        if not ((yield Wait(delay)) if delay > 0 else reason_to_stop_waiting(scope) is None):
            return settle_error(scope, node, task, cancellation_error(scope))
        number += 1
    if cache_policy is not None and is_cache_available:
        ttl = None if cache_policy.ttl is None else as_seconds(cache_policy.ttl)
        yield from ask_cache(partial(cache.put, keys[0], entry_of(result, checkpoint), ttl=ttl))
    return report_outcome(scope, task, result)


def retry_delay(policies: NodePolicies, number: int, result: object) -> float | None:
    """Return the seconds to wait between attempt `number` and the next; None if there is no next attempt.

    `result` is the result of the attempt. If the policy itself raises an error, the error of the attempt becomes its
    `__context__`.
    """
    if isinstance(result, RUN_ENDING_ERRORS):
        return None
    try:
        return policies.retry_delay(number, result)
    except Exception as error:
        if isinstance(result, BaseException) and error.__context__ is None:
            error.__context__ = result
        raise


def attempt_within_limits(
    scope: Scope, policies: NodePolicies, timeout: TimeLimit | None
) -> Generator[TaskEffect, Any, AttemptResult]:
    """Make one attempt, once the limits of the task and of the run permit it, and return its result."""
    clock, slots_before = scope.run.ports.clock, scope.held_slots
    # The executor of concurrent tasks may have acquired the slots of the run's limits already. An inline task must not
    # wait for them.
    limits = policies.slots if slots_before or scope.is_inline else (*scope.run.slots, *policies.slots)
    try:
        for rate in policies.rates:
            seconds = rate.reserve(clock.monotonic())
            if seconds > 0 and not (yield from _wait_for_token(rate, seconds)):
                return cancellation_error(scope)
        for slots in limits:
            if not (yield AcquireSlot(slots)):
                return cancellation_error(scope)
            scope.held_slots = (*scope.held_slots, slots)
        return (yield from _attempt_through_circuits(scope, policies, timeout))
    except (RateLimited, CircuitOpen) as error:
        return error
    except GeneratorExit:  # maybe in a finaliser: another thread releases the slots
        acquired_slots, scope.held_slots = scope.held_slots[len(slots_before) :], slots_before
        workers.hand_over(partial(_release_all, acquired_slots))
        raise
    finally:
        acquired_slots, scope.held_slots = scope.held_slots[len(slots_before) :], slots_before
        _release_all(acquired_slots)


def _wait_for_token(rate: Rate, seconds: float) -> Generator[TaskEffect, Any, bool]:
    """Wait until a reserved token may be used. If the task must stop waiting, refund the token and return False."""
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


def _attempt_through_circuits(
    scope: Scope, policies: NodePolicies, timeout: TimeLimit | None
) -> Generator[TaskEffect, Any, AttemptResult]:
    """Make one attempt, unless a circuit breaker refuses it.

    The breakers record its result, except errors that end the run, which say nothing about the node.
    """
    clock, entered_circuits = scope.run.ports.clock, list[Circuit]()
    result: Any = None
    try:
        for circuit in policies.circuits:
            circuit.enter(clock.monotonic())
            entered_circuits.append(circuit)
        result = override_if_refused(scope, (yield Try(timeout)))
    except GeneratorExit:  # maybe in a finaliser, where no lock may be taken
        workers.hand_over(partial(_record_all, tuple(entered_circuits), None, clock))
        entered_circuits.clear()
        raise
    finally:
        _record_all(entered_circuits, result, clock)
    return result


def _release_all(acquired_slots: Sequence[Slots]) -> None:
    for slots in acquired_slots:
        slots.release()


def _record_all(circuits: Sequence[Circuit], result: object, clock: Clock) -> None:
    """Record the result of an attempt in circuit breakers. `result` is None if it is unknown."""
    if circuits:
        with ExitStack() as stack:  # an error of one breaker must not affect the others
            for circuit in circuits:
                stack.callback(_record_in_circuit, circuit, result, clock)


def _record_in_circuit(circuit: Circuit, result: object, clock: Clock) -> None:
    if result is None or isinstance(result, RUN_ENDING_ERRORS):
        circuit.release()
        return
    try:
        circuit.record(result if isinstance(result, Exception) else None, clock.monotonic())
    except BaseException:
        circuit.release()
        raise


def _seconds_until_due(run: Run, task: Task) -> float:
    """Return the seconds until the next attempt at a task whose last attempt failed in an earlier run."""
    due = run.retries.get(task.id)
    return (due - run.ports.clock.now()).total_seconds() if due is not None else 0.0


def _save_attempt(scope: Scope, task: Task, number: int, delay: float) -> Generator[TaskEffect, Any, None]:
    """Save the number of failed attempts and the time of the next attempt, so that a crash does not reset them."""
    run = scope.run
    if run.saver is not None and run.branch_key is not None and scope.checkpoint is not None and not run.saves_on_exit:
        now = run.ports.clock.now()
        due = now + timedelta(seconds=delay)
        pending = Pending(attempts={TaskId(task.id): number}, retries={TaskId(task.id): due})
        checkpoint_id = CheckpointId(scope.checkpoint.id)
        yield AwaitReply(run.saver.save_results(run.branch_key, checkpoint_id, pending, hold=run.lease_request(now)))


def ask_cache(call: Callable[[], Any]) -> Generator[TaskEffect, Any, Any]:
    """Call a method of the cache, and return its reply; CACHE_UNAVAILABLE if its storage is not available.

    A result can also be computed, so a run need not fail because the cache is unavailable for a while.
    """
    try:
        return (yield AwaitReply(call()))
    except StorageUnavailable as error:
        logging.getLogger("statewright").warning("The cache of results of nodes is not used: %s", error)
        return CACHE_UNAVAILABLE


def _log_wait(node: str, number: int, delay: float, error: object) -> None:
    """Log a long delay, e.g. one that a service has requested with Retry-After."""
    logging.getLogger("statewright").warning(
        "Node %r waits %.0f seconds before attempt %d: %s: %s", node, delay, number + 1, type(error).__name__, error
    )


def _settle_from_cache(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, entry: CacheEntry
) -> Outcome:
    """Emit the same events as for a call of the node, and return the cached result of the task."""
    scope.begin_attempt(Attempt(0, scope.run.ports.clock))
    begin_task(scope, node, task, checkpoint)
    scope.mutation_snapshot = None
    return report_outcome(scope, task, result_of(scope.run.program, task, entry))


def cancellation_error(scope: Scope) -> RunCancelled:
    """Return the error of a task that must stop waiting for a limit or for its next attempt."""
    return RunCancelled(reason_to_stop_waiting(scope) or "cancelled")


def settle_outside_node(scope: Scope, node: NodeProgram, task: Task, error: BaseException) -> Outcome:
    """Return the outcome of a task if a policy, a cache or a saver has raised `error`, and not the node.

    No error handler runs, because the node has not failed.
    """
    if not isinstance(error, Exception) and scope.sibling_group is None:
        raise error  # ends the process or the run
    step = scope.checkpoint.step + 1 if scope.checkpoint else 0
    add_note(error, f"in node {node.name!r}, step {step}, outside its attempts")
    return report_outcome(scope, task, Failure(task, error))


def next_timeout(attempt: Attempt, timeout: TimeLimit, started_at: float) -> tuple[float, str, float]:
    """Return the next deadline of an attempt, whether it is a "run" or an "idle" timeout, and its length in seconds.

    Heartbeats move the deadline of an idle timeout. `started_at` and the deadline are instants of `Clock.monotonic`.
    """
    deadlines: list[tuple[float, str, float]] = []
    if timeout.run is not None:
        deadlines.append((started_at + timeout.run, "run", timeout.run))
    if timeout.idle is not None:
        deadlines.append((attempt.idle_since(started_at) + timeout.idle, "idle", timeout.idle))
    return min(deadlines)
