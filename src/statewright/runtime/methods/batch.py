"""Run one graph for many inputs concurrently."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, cast

from statewright.errors import InvalidConfig, NodeFailed
from statewright.futures import SIGNAL_POLL_SECONDS, wait_until_done
from statewright.graph import ParentCommand
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.liveness import note_refusal


def run_concurrently(run_one: Callable[[int], Any], count: int, limit: int | None) -> list[Any]:
    """Call `run_one` with each index below `count`, concurrently on threads, and return the results in order.

    The calls run in copies of this context, at most `limit` at once. After the first exception no further call begins,
    and the calls in progress, which cannot be stopped, are awaited before the exception is raised.
    """
    if not count:
        return []
    from concurrent.futures import ThreadPoolExecutor  # few programs need it

    pool = ThreadPoolExecutor(min(limit or DEFAULT_THREADS, count), thread_name_prefix="statewright-batch")
    has_failed = False

    def run_unless_failed(index: int) -> Any:
        nonlocal has_failed
        if has_failed:  # the pool may start this call before the thread that waits for it has cancelled it
            return None
        try:
            return run_one(index)
        except BaseException:
            has_failed = True
            raise

    try:
        calls = [pool.submit(contextvars.copy_context().run, run_unless_failed, index) for index in range(count)]
        if _wait_for_failure(calls):
            pool.shutdown(wait=False, cancel_futures=True)
            for call in calls:
                wait_until_done(call)
            raise next(error for call in calls if not call.cancelled() and (error := call.exception()) is not None)
        return [call.result() for call in calls]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _wait_for_failure(calls: Sequence[Future[Any]]) -> bool:
    """Wait until a call has failed or all calls have ended. Return whether a call has failed."""
    while True:
        done, pending = wait(calls, SIGNAL_POLL_SECONDS, FIRST_EXCEPTION)
        if any(call.exception() is not None for call in done):
            return True
        if not pending:
            return False


async def arun_concurrently(
    run_one: Callable[[int], Coroutine[Any, Any, Any]], count: int, limit: int | None
) -> list[Any]:
    """Do the same as `run_concurrently` on the running event loop. The first exception cancels the other calls."""
    import asyncio

    slots = asyncio.Semaphore(limit or max(count, 1))
    has_failed = False

    async def run_in_slot(index: int) -> Any:
        nonlocal has_failed
        async with slots:
            if has_failed:  # the semaphore may wake this task before it is cancelled
                return None
            try:
                return await run_one(index)
            except BaseException:
                has_failed = True
                raise

    calls = [asyncio.ensure_future(run_in_slot(index)) for index in range(count)]
    try:
        return await asyncio.gather(*calls)
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def raise_signals(results: list[Any]) -> list[Any]:
    """Return the results of a batch, or raise the signals among them, which are meant for the calling node.

    If there are questions, all are raised as one `Paused`. Otherwise all Commands for the calling graph are raised as
    one `ChildCommand`.
    """
    questions = [question for signal in results if isinstance(signal, Paused) for question in signal.interrupts]
    if questions:
        raise Paused(*questions)
    signals = [signal for signal in results if isinstance(signal, ChildCommand)]
    if signals:
        commands = [command for signal in signals for command in signal.commands]
        raise ChildCommand(*commands, nodes=[node for signal in signals for node in signal.nodes])
    return results


def config_at(config: Any, index: int, count: int) -> Any:
    """Return the config for one of `count` inputs. `config` is a config for all inputs, or a list with one for each."""
    if config is None or isinstance(config, Mapping):
        return cast(Any, config)
    configs = cast(Sequence[Any], config)
    if len(configs) != count:
        raise InvalidConfig(
            f"The batch has {count} inputs and {len(configs)} configs. Pass one config for each input, or one for all."
        )
    return configs[index]


def error_of(run: Run) -> BaseException | None:
    """Return the exception that takes the place of a run's result; None if the run has not failed."""
    outcome = run.outcome
    if outcome is None or outcome.error is None or (run.nested and isinstance(outcome.error, ParentCommand)):
        return None
    if run.parent is not None:
        note_refusal(run.parent, outcome.error)
    if outcome.node is None:
        return outcome.error
    return NodeFailed(outcome.node, outcome.error, step=outcome.checkpoint.step + 1)
