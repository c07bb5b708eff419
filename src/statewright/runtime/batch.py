"""Many inputs at once: the same graph, run beside itself."""

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
from statewright.runtime.tasks.standing import note_refusal


def run_beside(run_one: Callable[[int], Any], count: int, width: int | None) -> list[Any]:
    """The results of `run_one` for each place, in order; each on a thread, in a copy of the caller's context.

    After the first exception no other run begins; those under way cannot be stopped, and are waited for. After an
    interruption of this thread they are left alone.
    """
    if not count:
        return []
    pool = ThreadPoolExecutor(min(width or DEFAULT_THREADS, count), thread_name_prefix="statewright-batch")
    has_failed = False

    def run_unless_failed(place: int) -> Any:
        nonlocal has_failed
        if has_failed:  # the pool may start it before the waiting thread cancels it
            return None
        try:
            return run_one(place)
        except BaseException:
            has_failed = True
            raise

    try:
        runs = [pool.submit(contextvars.copy_context().run, run_unless_failed, place) for place in range(count)]
        if _wait_for_failure(runs):
            pool.shutdown(wait=False, cancel_futures=True)
            for one in runs:
                wait_until_done(one)
            raise next(error for one in runs if not one.cancelled() and (error := one.exception()) is not None)
        return [one.result() for one in runs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _wait_for_failure(runs: Sequence[Future[Any]]) -> bool:
    """Wait until a run has failed or all have ended. Return whether one has failed."""
    while True:
        ended, left = wait(runs, SIGNAL_POLL_SECONDS, FIRST_EXCEPTION)
        if any(one.exception() is not None for one in ended):
            return True
        if not left:
            return False


async def run_beside_async(
    run_one: Callable[[int], Coroutine[Any, Any, Any]], count: int, width: int | None
) -> list[Any]:
    """The same on the running event loop. The first exception cancels the rest."""
    import asyncio

    places = asyncio.Semaphore(width or max(count, 1))
    has_failed = False

    async def run_in_turn(place: int) -> Any:
        nonlocal has_failed
        async with places:
            if has_failed:  # the semaphore may wake it before it is cancelled
                return None
            try:
                return await run_one(place)
            except BaseException:
                has_failed = True
                raise

    runs = [asyncio.ensure_future(run_in_turn(place)) for place in range(count)]
    try:
        return await asyncio.gather(*runs)
    finally:
        for one in runs:
            one.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


def without_signals(results: list[Any]) -> list[Any]:
    """The results of a batch; raised as one what the runs of a batch inside a node mean to that node."""
    left = [signal for signal in results if isinstance(signal, ChildCommand)]
    if waiting := [question for signal in results if isinstance(signal, Paused) for question in signal.interrupts]:
        raise Paused(*waiting)
    if left:
        commands = [command for signal in left for command in signal.commands]
        raise ChildCommand(*commands, nodes=[node for signal in left for node in signal.nodes])
    return results


def config_at(config: Any, place: int, count: int) -> Any:
    """The config of one input: the common one, or its own from a list. Raises InvalidConfig for a wrong length."""
    if config is None or isinstance(config, Mapping):
        return cast(Any, config)
    configs = cast(Sequence[Any], config)
    if len(configs) != count:
        raise InvalidConfig(f"The batch has {count} inputs and {len(configs)} configs. Give one each, or one for all.")
    return configs[place]


def recorded(run: Run) -> BaseException | None:
    """How a failed run is kept in place of a result; None if it did not fail."""
    rest = run.rest
    if rest is None or rest.error is None or (run.nested and isinstance(rest.error, ParentCommand)):
        return None
    if run.parent is not None:
        note_refusal(run.parent, rest.error)
    if rest.node is None:
        return rest.error
    return NodeFailed(rest.node, rest.error, step=rest.checkpoint.step + 1)
