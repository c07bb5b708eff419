"""The driver that performs effects with plain calls and worker threads.

It is a generator of stream parts, so that reading a stream drives the run; a run that nobody reads never yields,
and one call of `next` takes it to rest.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from statewright.clock import wait_until
from statewright.errors import LeaseLost, add_note
from statewright.futures import SafeEvent
from statewright.ids import draw_checkpoint_id
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.concurrency.executors import InlineExecutor, ThreadExecutor
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers
from statewright.runtime.core.commit import error_text
from statewright.runtime.core.effects import RunGenerator, RunTasks
from statewright.runtime.core.events import emit_run_aborted
from statewright.runtime.core.partial_results import save_failure
from statewright.runtime.core.program import Lane
from statewright.runtime.drivers.saver_calls import flush, perform_all, perform_effect
from statewright.runtime.invocation.emitter import StreamBuffer
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import ALL_CLOSED, NONE_CLOSED, Run
from statewright.runtime.lifecycle.subgraph_call import CallInProgress
from statewright.runtime.lifecycle.thread_lease import LeaseRenewer
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.execute import perform
from statewright.runtime.tasks.retries_sync import perform_guarded, suspended_slots
from statewright.runtime.tasks.scope import Scope, current_scope, enter_scope, leave_anywhere, leave_scope
from statewright.runtime.tasks.standing import superstep_above

if TYPE_CHECKING:
    from statewright.runtime.concurrency.private_loop import Coroutines

Parts = Generator[Any, None, None]


def drive_sync(run: Run, core: RunGenerator) -> Parts:
    """Perform what the core asks for until it comes to rest; `run.rest` tells how. Yields stream parts."""
    buffer = run.reader
    nodes = run.program.nodes
    # Lone plain functions are called on this thread, unless a reader waits for what they have to say meanwhile.
    called_here = ("inline",) if buffer is not None and buffer.live else ("inline", "thread")
    scope, saves = Scope(run), run.saver is not None
    answer: Any = None
    failed: Exception | None = None
    run.closed_step = NONE_CLOSED
    token = enter_scope(scope)
    try:
        while True:
            try:
                effect = core.send(answer) if failed is None else core.throw(failed)
            except StopIteration as stopped:  # only the core's own end: nodes are called elsewhere
                run.rest = stopped.value
                if run.in_flight_commit is not None and not run.nested:
                    flush(run)
                break
            answer = failed = None  # the core has it now
            if buffer is not None and buffer.parts:
                leave_scope(token)  # the reader is no part of the run
                yield from buffer.take()
                token = enter_scope(scope)
            if type(effect) is not RunTasks:
                try:
                    answer = perform_effect(run, effect)
                except Exception as error:
                    failed = error
            else:
                if len(effect.tasks) == 1 and (node := nodes[effect.tasks[0].node]).sync_lane in called_here:
                    scope.task = task = effect.tasks[0]
                    scope.checkpoint = checkpoint = effect.checkpoint
                    enter_scope((scope, task, checkpoint, None))
                    performs = perform if node.guards is None and not run.guards_all else perform_guarded
                    outcomes = [performs(scope, node, task, checkpoint)]
                    if run.calls is not None and run.calls.are_waited_for(effect.tasks, outcomes):
                        leave_scope(token)
                        outcomes = yield from _run_many(run, effect, buffer, outcomes)
                        token = enter_scope(scope)
                    run.closed_step = checkpoint.step
                else:
                    leave_scope(token)
                    outcomes = yield from _run_many(run, effect, buffer)
                    token = enter_scope(scope)
                try:
                    answer = (
                        (outcomes, draw_checkpoint_id(), run.ports.clock.now()) if saves else (outcomes, None, None)
                    )
                except Exception as error:  # of the clock
                    failed = error
            if run.calls is not None:
                run.calls.end()
    except GeneratorExit as error:  # maybe in a finaliser, where no instrument may be called
        workers.hand_over(partial(emit_run_aborted, run, error))
        if run.calls is not None:
            workers.hand_over(run.calls.stop)
        raise
    except BaseException as error:
        failed = None  # its traceback leads here
        if run.calls is not None:
            run.calls.end()
        emit_run_aborted(run, error)
        raise
    finally:
        run.closed_step = ALL_CLOSED
        leave_anywhere(token)
        core.close()
    if run.control is not None and run.rest is not None and run.rest.status == "cancelled" and not run.nested:
        run.control.wait_until_stopped(run)
    if buffer is not None:
        yield from buffer.take()


def parts_of(run: Run, given: Any) -> Parts:
    """Take a run to rest from its input, in its turn. A task that calls it gives back its slots meanwhile."""
    caller = current_scope() if run.nested else None
    if caller is not None and run.reader is not None:
        yield from _lending_parts(caller, _within(run, given))
        return
    with suspended_slots(caller) if caller is not None and (caller.holding or caller.lending) else nullcontext():
        if run.owner is None or run.nested:
            yield from _within(run, given)
            return
        run.control = run.control or RunControl()
        with LeaseRenewer(run) as held:
            parts = drive_sync(run, run_until_idle(run, given))
            yield from held.hand_out(parts) if run.reader is not None else parts


def _within(run: Run, given: Any) -> Parts:
    """Take a run to rest that holds no thread of its own."""
    with CallInProgress(run):
        yield from drive_sync(run, run_until_idle(run, given))


def _lending_parts(caller: Scope, parts: Parts) -> Parts:
    """Advance a stream that a task reads; its slots are given back meanwhile, and are its own between two parts."""
    while True:
        with suspended_slots(caller) if caller.holding or caller.lending else nullcontext():
            try:
                part = next(parts)
            except StopIteration:
                return
        yield part


def _run_many(
    run: Run, effect: RunTasks, buffer: StreamBuffer | None, lone: Sequence[Outcome | None] = ()
) -> Generator[Any, None, list[Outcome | None]]:
    """Run tasks beside each other; while they run, hand out parts of a live stream.

    With `lone`, which a task has brought that ran alone, only wait for what it has called.
    """
    if not effect.tasks:
        return []
    wake = SafeEvent()  # a signal handler may cancel the run
    step = Superstep(run, effect, wake.set)
    if buffer is not None:
        buffer.wake = wake.set if buffer.prompt else None
    lanes = _Lanes()
    with _stoppable(step):
        try:
            if lone:
                step.land_lone(lone[0])
            else:
                lanes.start(step)
            while not (step.closed or step.ending):
                wake.wait()
                wake.clear()
                if buffer is not None and not step.closed:
                    yield from buffer.take()
            if not step.closed:
                yield from _grace(step, lanes, wake, buffer)
        except GeneratorExit:  # the stream was abandoned, maybe in a finaliser
            step.abandon()
            workers.hand_over(partial(lanes.end, False))
            raise
        except BaseException:
            step.close()
            lanes.end(True)
            raise
        step.close()
        lanes.end(True)
    return step.outcomes


def _grace(step: Superstep, lanes: _Lanes, wake: SafeEvent, buffer: StreamBuffer | None) -> Generator[Any, None, None]:
    """Stop what can be stopped, say what has failed, and wait for the rest until its time is over."""
    run = step.run
    try:
        lanes.wind_down()
        if step.failure is not None:
            _save_failure(step, step.failure)
        grace = run.config.sibling_grace
        over = run.ports.clock.monotonic() + grace if grace is not None else None
        while not step.closed:
            if over is None:
                wake.wait()
            elif run.ports.clock.monotonic() < over:
                wait_until(run.ports.clock, wake, over)
            else:
                return
            wake.clear()
            if buffer is not None:
                yield from buffer.take()
    except Exception as error:  # of the clock: what has failed is more important
        note_on_failure(step, "Tasks beside it could not be waited for", error)


def _save_failure(step: Superstep, failure: Failure) -> None:
    """Save that a task has failed. If that does not work, it is tried again with the end of the superstep."""
    try:
        perform_all(step.run, save_failure(step.run, step.checkpoint, failure))
    except LeaseLost:
        step.close()  # what others bring could not be saved any more
    except Exception as error:
        note_on_failure(step, "It could not be saved at once", error)


def note_on_failure(step: Superstep, what: str, error: Exception) -> None:
    """Keep what went wrong while others were waited for as a note of the error that ended the superstep."""
    if step.failure is not None:
        add_note(step.failure.error, f"{what}: {error_text(error)}")


@contextmanager
def _stoppable(step: Superstep) -> Generator[None]:
    """While the block runs, a cancellation closes the superstep, and so does the one in which this graph was called."""
    run, above = step.run, superstep_above(step.run)
    run.superstep = step
    try:
        with run.control.calling(step.close_and_tell, run.root) if run.control is not None else nullcontext():
            if above is None:
                yield
            else:
                with above.telling(lambda: step.follow(above)):
                    yield
    finally:
        run.superstep = None


class _Lanes:
    """The executors of the tasks of one superstep: the driver's thread, worker threads, an event loop."""

    __slots__ = ("_coroutines",)

    def __init__(self) -> None:
        self._coroutines: Coroutines | None = None

    def start(self, step: Superstep) -> None:
        """Start the tasks."""
        run = step.run
        lanes = lanes_of(step, [node.beside_lane for node in step.task_nodes()], run.settings.max_concurrency)
        if "loop" in lanes:
            from statewright.runtime.concurrency.private_loop import start_coroutines  # loads asyncio

            self._coroutines = start_coroutines(step, lanes["loop"], run.settings.max_concurrency)
        if "thread" in lanes:
            ThreadExecutor().start(step, lanes["thread"], run.settings.max_concurrency or DEFAULT_THREADS)
        if "inline" in lanes:
            InlineExecutor().start(step, lanes["inline"], 1)

    def wind_down(self) -> None:
        """Cancel coroutines; plain functions can't be stopped."""
        if self._coroutines is not None:
            self._coroutines.wind_down()

    def end(self, waits: bool) -> None:
        """Stop what can be stopped, and wait for it if told to."""
        if self._coroutines is not None:
            self._coroutines(waits)


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
