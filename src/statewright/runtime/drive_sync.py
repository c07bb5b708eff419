"""The driver that performs effects with plain calls and worker threads.

It is a generator of stream parts, so that reading a stream drives the run; a run that nobody reads never yields,
and one call of `next` takes it to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import Token
from functools import partial
from typing import Any

from statewright.errors import CheckpointConflict, ThreadBusy
from statewright.ids import draw_checkpoint_id
from statewright.promise import SafeEvent
from statewright.runtime.attempt import perform
from statewright.runtime.attempts import lent, perform_guarded
from statewright.runtime.control import RunControl
from statewright.runtime.effects import Core, Outcome, RunTasks
from statewright.runtime.executor import InlineExecutor, ThreadExecutor
from statewright.runtime.program import Lane
from statewright.runtime.run import Run
from statewright.runtime.saver_calls import flush, perform_all, perform_effect
from statewright.runtime.scope import Scope, current_scope, enter_scope, leave_scope
from statewright.runtime.start import run_to_rest
from statewright.runtime.superstep import Superstep
from statewright.runtime.thread_state import rolled_back
from statewright.runtime.turns import Keeper, await_turn, in_line, may_wait, releases_on_their_way
from statewright.runtime.watch import StreamBuffer, tell_broken_off
from statewright.runtime.worker_threads import DEFAULT_THREADS, workers

Parts = Generator[Any, None, None]


def drive_sync(run: Run, core: Core) -> Parts:
    """Perform what the core asks for until it comes to rest; `run.rest` tells how. Yields stream parts."""
    buffer = run.watch.buffer if run.watch is not None and not run.nested else None
    nodes = run.program.nodes
    # Lone plain functions are called on this thread, unless a reader waits for what they have to say meanwhile.
    called_here = ("inline",) if buffer is not None and buffer.live else ("inline", "thread")
    scope, draws = Scope(run), run.saver is not None
    answer: Any = None
    token = enter_scope(scope)
    try:
        while True:
            try:
                effect = core.send(answer)
            except StopIteration as stopped:  # only the core's own end: nodes are called elsewhere
                run.rest = stopped.value
                if run.unsaved is not None and not run.nested:
                    flush(run)
                break
            answer = None  # the core has it now
            if buffer is not None and buffer.parts:
                leave_scope(token)  # the reader is no part of the run
                yield from buffer.take()
                token = enter_scope(scope)
            if type(effect) is not RunTasks:
                answer = perform_effect(run, effect)
            elif len(effect.tasks) == 1 and (node := nodes[effect.tasks[0].node]).sync_lane in called_here:
                scope.task = task = effect.tasks[0]
                scope.checkpoint = checkpoint = effect.checkpoint
                performs = perform if node.guards is None and not run.guards_all else perform_guarded
                answer = [performs(scope, node, task, checkpoint)], draw_checkpoint_id() if draws else None
            else:
                leave_scope(token)
                outcomes = yield from _run_many(run, effect, buffer)
                token = enter_scope(scope)
                answer = outcomes, draw_checkpoint_id() if draws else None
    except GeneratorExit as error:  # maybe in a finaliser, where no instrument may be called
        workers.hand_over(partial(tell_broken_off, run, error))
        raise
    except BaseException as error:
        tell_broken_off(run, error)
        raise
    finally:
        leave_anywhere(token)
        core.close()
    if run.control is not None and run.rest is not None and run.rest.status == "cancelled" and not run.nested:
        run.control.wait_until_stopped()
    if buffer is not None:
        yield from buffer.take()


def parts_of(run: Run, given: Any) -> Parts:
    """Take a run to rest from its input, in its turn. A task that calls it gives back its slots meanwhile."""
    caller = current_scope() if run.nested else None
    with lent(caller) if caller is not None and (caller.holding or caller.lending) else nullcontext():
        if run.owner is None or run.nested:
            try:
                yield from drive_sync(run, run_to_rest(run, given))
            finally:
                run.live.pop(run.namespace, None)
            return
        run.control = run.control or RunControl()
        for released in releases_on_their_way(run):
            released.wait()
        with Keeper(run):
            yield from _in_turn(run, given)


def _in_turn(run: Run, given: Any) -> Parts:
    """Drive a run; while another one holds its thread, do what `on_busy` says."""
    try:
        yield from drive_sync(run, run_to_rest(run, given))
        return
    except (ThreadBusy, CheckpointConflict) as busy:
        if not may_wait(run, busy):
            raise
    with in_line(run) as ticket:
        while True:
            await_turn(run, ticket)
            try:
                if run.on_busy == "rollback":
                    perform_all(run, rolled_back(run))
                yield from drive_sync(run, run_to_rest(run, given))
                return
            except (ThreadBusy, CheckpointConflict) as busy:
                if not may_wait(run, busy):
                    raise


def leave_anywhere(token: Token[Scope | None]) -> None:
    """Leave the scope, unless the reader abandoned the stream: then it was left before, maybe in another context."""
    try:  # noqa: SIM105  # `suppress` costs as much as a step
        leave_scope(token)
    except (ValueError, RuntimeError):
        pass


def _run_many(run: Run, effect: RunTasks, buffer: StreamBuffer | None) -> Generator[Any, None, list[Outcome | None]]:
    """Run tasks beside each other; while they run, hand out parts of a live stream."""
    if not effect.tasks:
        return []
    wake = SafeEvent()  # a signal handler may cancel the run
    step = Superstep(run, effect, wake.set)
    if buffer is not None:
        buffer.wake = wake.set if buffer.prompt else None
    stop = _start(run, step)
    with run.control.calling(_closing(step, wake)) if run.control is not None else nullcontext():
        try:
            while not step.closed:
                wake.wait()
                wake.clear()
                if buffer is not None and not step.closed:
                    yield from buffer.take()
        except GeneratorExit:  # the stream was abandoned, maybe in a finaliser
            step.abandon()
            workers.hand_over(partial(stop, False))
            raise
        except BaseException:
            step.close()
            stop(True)
            raise
        step.close()
        stop(True)
    return step.outcomes


def _closing(step: Superstep, wake: SafeEvent) -> Callable[[], object]:
    """What cancels a superstep: nobody waits for its tasks any more."""

    def close() -> None:
        step.abandon()  # without its lock: this may be a signal handler; the driver closes it when it wakes
        wake.set()

    return close


def _start(run: Run, step: Superstep) -> Callable[[bool], object]:
    """Start the tasks of a superstep, each where it runs; what stops those that can be stopped, and waits if told."""
    lanes = lanes_of(step, [node.beside_lane for node in step.task_nodes()], run.max_concurrency)
    stop: Callable[[bool], object] = _nothing
    if "loop" in lanes:
        from statewright.runtime.coroutines import start_coroutines  # loads asyncio

        stop = start_coroutines(step, lanes["loop"], run.max_concurrency)
    if "thread" in lanes:
        ThreadExecutor().start(step, lanes["thread"], run.max_concurrency or DEFAULT_THREADS)
    if "inline" in lanes:
        InlineExecutor().start(step, lanes["inline"], 1)
    return stop


def lanes_of(step: Superstep, lane_by_place: Sequence[Lane], limit: int | None) -> Mapping[Lane, Sequence[int]]:
    """The places of the tasks by where they run.

    Where a limit binds and there is more than one lane, all run from the loop, which hands plain functions to
    threads: then one place counts what is in flight.
    """
    kinds = set(lane_by_place)
    if len(kinds) == 1:
        return {lane_by_place[0]: range(len(step.tasks))}
    if limit is not None and limit < len(step.tasks):
        lane_by_place = ["inline" if lane == "inline" else "loop" for lane in lane_by_place]
        kinds = set(lane_by_place)
    return {kind: [place for place, lane in enumerate(lane_by_place) if lane == kind] for kind in sorted(kinds)}


def _nothing(waits: bool) -> None:
    """Plain functions can't be stopped."""
