"""Run one graph for many inputs concurrently."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, cast

from statewright.errors import InvalidConfig, NodeFailed
from statewright.futures import SIGNAL_POLL_SECONDS, wait_until_done
from statewright.graph import ParentCommand
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.liveness import note_refusal


def run_concurrently(run_one: Callable[[int], Any], count: int, limit: int | None) -> list[Any]:
    """Call `run_one` with each index, on threads and in copies of this context, and return the results in order.

    At most `limit` calls run at once. After the first exception no further call begins. Calls in progress cannot be
    stopped: they are waited for, unless this thread is interrupted.
    """
    if not count:
        return []
    pool = ThreadPoolExecutor(min(limit or DEFAULT_THREADS, count), thread_name_prefix="statewright-batch")
    has_failed = False

    def run_unless_failed(index: int) -> Any:
        nonlocal has_failed
        if has_failed:  # the pool may start this call before the waiting thread cancels it
            return None
        try:
            return run_one(index)
        except BaseException:
            has_failed = True
            raise

    try:
        runs = [pool.submit(contextvars.copy_context().run, run_unless_failed, index) for index in range(count)]
        if _wait_for_failure(runs):
            pool.shutdown(wait=False, cancel_futures=True)
            for run in runs:
                wait_until_done(run)
            raise next(error for run in runs if not run.cancelled() and (error := run.exception()) is not None)
        return [run.result() for run in runs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _wait_for_failure(runs: Sequence[Future[Any]]) -> bool:
    """Wait until a run has failed or all have ended. Return whether one has failed."""
    while True:
        done, pending = wait(runs, SIGNAL_POLL_SECONDS, FIRST_EXCEPTION)
        if any(run.exception() is not None for run in done):
            return True
        if not pending:
            return False


async def arun_concurrently(
    run_one: Callable[[int], Coroutine[Any, Any, Any]], count: int, limit: int | None
) -> list[Any]:
    """`run_concurrently`, on the running event loop. The first exception cancels the other calls."""
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

    runs = [asyncio.ensure_future(run_in_slot(index)) for index in range(count)]
    try:
        return await asyncio.gather(*runs)
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


def raise_signals(results: list[Any]) -> list[Any]:
    """Return the results of a batch, or raise the signals among them, which its runs have for the calling node.

    All questions are raised as one `Paused`; without any, all Commands for the node's graph as one `ChildCommand`.
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
    """Return the config of one input: the common one, or its entry in a list, which must have `count` entries."""
    if config is None or isinstance(config, Mapping):
        return cast(Any, config)
    configs = cast(Sequence[Any], config)
    if len(configs) != count:
        raise InvalidConfig(
            f"The batch has {count} inputs and {len(configs)} configs. Pass one config for each input, or one for all."
        )
    return configs[index]


def error_of(run: Run) -> BaseException | None:
    """Return the exception to put in place of the result of a run; None if the run did not fail."""
    outcome = run.outcome
    if outcome is None or outcome.error is None or (run.nested and isinstance(outcome.error, ParentCommand)):
        return None
    if run.parent is not None:
        note_refusal(run.parent, outcome.error)
    if outcome.node is None:
        return outcome.error
    return NodeFailed(outcome.node, outcome.error, step=outcome.checkpoint.step + 1)
