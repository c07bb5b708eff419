"""The driver that performs effects with plain calls and worker threads.

It is a generator of stream parts, so reading a stream drives the run. If nothing reads a stream, the generator never
yields, and a single call of `next` drives the run until it is idle.

While the generator is suspended at a `yield`, the reader's code runs, which does not belong to the run. So the driver
leaves the scope of the run before each `yield`. A reader may also drop the suspended generator. Then GeneratorExit may
be raised in a finaliser, where no locks may be taken and no instruments called, so a worker thread does such work.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from statewright.clock import wait_until
from statewright.errors import LeaseLost, add_note
from statewright.futures import SafeEvent
from statewright.ids import new_checkpoint_id
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
from statewright.runtime.tasks.execute import execute_task
from statewright.runtime.tasks.retries_sync import perform_attempts, suspended_slots
from statewright.runtime.tasks.scope import (
    Scope,
    current_scope,
    enter_reused_scope,
    enter_scope,
    leave_if_possible,
    leave_scope,
)

if TYPE_CHECKING:
    from statewright.runtime.concurrency.private_loop import CoroutineTasks

Parts = Generator[Any, None, None]


def drive_sync(run: Run, core: RunGenerator) -> Parts:
    """Perform the effects of the core until the run is idle, and set `run.outcome`. Yield the stream parts."""
    buffer = run.stream_buffer
    nodes = run.program.nodes
    # A plain function that runs alone is called on this thread, unless a reader wants parts while it is running.
    lanes_of_this_thread = ("inline",) if buffer is not None and buffer.flushes_during_tasks else ("inline", "thread")
    scope, saves = Scope(run), run.saver is not None
    reply: Any = None
    error_to_throw: Exception | None = None
    run.closed_step = NONE_CLOSED
    token = enter_scope(scope)
    try:
        while True:
            try:
                effect = core.send(reply) if error_to_throw is None else core.throw(error_to_throw)
            except StopIteration as stopped:  # raised by the core itself, because no user code runs in this block
                run.outcome = stopped.value
                if run.in_flight_commit is not None and not run.nested:
                    flush(run)
                break
            # The core has received the reply or the error. An error must not be thrown twice, nor a value kept alive.
            reply = outcomes = error_to_throw = None
            if buffer is not None and buffer.parts:
                leave_scope(token)  # the reader's code does not belong to the run
                yield from buffer.take()
                token = enter_scope(scope)
            if type(effect) is not RunTasks:
                try:
                    reply = perform_effect(run, effect)
                except Exception as error:
                    error_to_throw = error
            else:
                if len(effect.tasks) == 1 and (node := nodes[effect.tasks[0].node]).sync_lane in lanes_of_this_thread:
                    scope.task = task = effect.tasks[0]
                    scope.checkpoint = checkpoint = effect.checkpoint
                    enter_reused_scope((scope, task, checkpoint, None))
                    perform_task = (
                        execute_task if node.policies is None and not run.all_tasks_need_attempts else perform_attempts
                    )
                    outcomes = [perform_task(scope, node, task, checkpoint)]
                    if run.open_calls is not None and run.open_calls.must_be_awaited(effect.tasks, outcomes):
                        leave_scope(token)
                        outcomes = yield from _run_many(run, effect, buffer, outcomes)
                        token = enter_scope(scope)
                    run.closed_step = checkpoint.step
                else:
                    leave_scope(token)
                    outcomes = yield from _run_many(run, effect, buffer)
                    token = enter_scope(scope)
                try:
                    reply = (outcomes, new_checkpoint_id(), run.ports.clock.now()) if saves else (outcomes, None, None)
                except Exception as error:  # raised by the clock
                    error_to_throw = error
            if run.open_calls is not None:
                run.open_calls.end()
    except GeneratorExit as error:  # maybe in a finaliser, where no instrument may be called
        workers.hand_over(partial(emit_run_aborted, run, error))
        if run.open_calls is not None:
            workers.hand_over(run.open_calls.stop)
        raise
    except BaseException as error:
        error_to_throw = None  # breaks a reference cycle: its traceback refers to this frame
        if run.open_calls is not None:
            run.open_calls.end()
        emit_run_aborted(run, error)
        raise
    finally:
        run.closed_step = ALL_CLOSED
        leave_if_possible(token)
        core.close()
    if run.control is not None and run.outcome is not None and run.outcome.status == "cancelled" and not run.nested:
        run.control.wait_until_stopped(run)
    if buffer is not None:
        yield from buffer.take()


def iter_parts(run: Run, graph_input: Any) -> Parts:
    """Wait for the run's turn on its thread if necessary, drive the run until it is idle, and yield its stream parts.

    If a task has called the graph as a subgraph, the task releases its slots meanwhile.
    """
    caller = current_scope() if run.nested else None
    if caller is not None and run.stream_buffer is not None:
        yield from _iter_parts_without_slots(caller, _iter_parts_without_lease(run, graph_input))
        return
    with suspended_slots(caller) if caller is not None and caller.uses_slots else nullcontext():
        if run.owner is None or run.nested:
            yield from _iter_parts_without_lease(run, graph_input)
            return
        run.control = run.control or RunControl()
        hold = LeaseRenewer(run)
        try:
            with hold:
                parts = drive_sync(run, run_until_idle(run, graph_input))
                yield from hold.yield_parts(parts) if run.stream_buffer is not None else parts
        finally:
            hold.drop_unless_ended()


def _iter_parts_without_lease(run: Run, graph_input: Any) -> Parts:
    """Drive a run that needs no lease of its own: it saves nothing, or is the run of a subgraph."""
    with CallInProgress(run):
        yield from drive_sync(run, run_until_idle(run, graph_input))


def _iter_parts_without_slots(caller: Scope, parts: Parts) -> Parts:
    """Yield the parts of a stream that a task reads. The task releases its slots while it waits for each part."""
    while True:
        with suspended_slots(caller) if caller.uses_slots else nullcontext():
            try:
                part = next(parts)
            except StopIteration:
                return
        yield part


def _run_many(
    run: Run, effect: RunTasks, buffer: StreamBuffer | None, lone_outcome: Sequence[Outcome | None] = ()
) -> Generator[Any, None, list[Outcome | None]]:
    """Run tasks concurrently, yield stream parts meanwhile, and return the outcomes of the tasks.

    If the only task has already run, `lone_outcome` has its outcome. Then only its `@task` calls are awaited.
    """
    if not effect.tasks:
        return []
    wake = SafeEvent()  # not a threading.Event, because a signal handler may cancel the run
    step = Superstep(run, effect, wake.set)
    if buffer is not None:
        buffer.wake = wake.set if buffer.flushes_during_supersteps else None
    executors = _Executors()
    control = run.control
    with step.running(), control.on_cancel(step.close_and_notify, run.root) if control is not None else nullcontext():
        try:
            if lone_outcome:
                step.accept_lone(lone_outcome[0])
            else:
                executors.start(step)
            while not (step.closed or step.ending):
                wake.wait()
                wake.clear()
                if buffer is not None and not step.closed:
                    yield from buffer.take()
            if not step.closed:
                yield from _await_siblings(step, executors, wake, buffer)
        except GeneratorExit:  # the reader has dropped the stream, maybe in a finaliser
            step.abandon()
            workers.hand_over(partial(executors.end, wait=False))
            raise
        except BaseException:
            step.close()
            executors.end(wait=True)
            raise
        step.close()
        executors.end(wait=True)
    return step.outcomes


def _await_siblings(step: Superstep, executors: _Executors, wake: SafeEvent, buffer: StreamBuffer | None) -> Parts:
    """Cancel the coroutines, save the failure that ends the superstep, and wait for plain functions.

    The wait ends with the grace period at the latest. Yields stream parts meanwhile.
    """
    run = step.run
    try:
        executors.wind_down()
        if step.failure is not None:
            _save_failure(step, step.failure)
        grace = run.config.sibling_grace
        deadline = run.ports.clock.monotonic() + grace if grace is not None else None
        while not step.closed:
            if deadline is None:
                wake.wait()
            elif run.ports.clock.monotonic() < deadline:
                wait_until(run.ports.clock, wake, deadline)
            else:
                return
            wake.clear()
            if buffer is not None:
                yield from buffer.take()
    except Exception as error:  # raised by the clock: the failure of the task takes precedence
        add_failure_note(step, "Waiting for its sibling tasks failed", error)


def _save_failure(step: Superstep, failure: Failure) -> None:
    """Save the failure of a task now. If that does not succeed, the end of the superstep will save it."""
    try:
        perform_all(step.run, save_failure(step.run, step.checkpoint, failure))
    except LeaseLost:
        step.close()  # later outcomes could not be saved
    except Exception as error:
        add_failure_note(step, "The failure could not be saved at once", error)


def add_failure_note(step: Superstep, message: str, error: Exception) -> None:
    """Add a later error as a note to the error that ended the superstep. `message` says what has failed."""
    if step.failure is not None:
        add_note(step.failure.error, f"{message}: {error_text(error)}")


class _Executors:
    """Runs the tasks of a superstep by three executors: on the driver's thread, worker threads and a private loop."""

    __slots__ = ("_coroutines",)

    def __init__(self) -> None:
        self._coroutines: CoroutineTasks | None = None

    def start(self, step: Superstep) -> None:
        """Start the tasks. When this returns, those that run on the driver's own thread have ended."""
        run = step.run
        lanes = indices_by_lane([node.concurrent_lane for node in step.task_nodes()], run.settings.max_concurrency)
        if run.program.has_remote and "loop" in lanes:
            from statewright.runtime.concurrency.remote_executor import start_in_chunks  # loads the executors

            lanes = start_in_chunks(step, lanes)
        if "loop" in lanes:
            from statewright.runtime.concurrency.private_loop import start_coroutines  # loads asyncio

            self._coroutines = start_coroutines(step, lanes["loop"], run.settings.max_concurrency)
        if "thread" in lanes:
            ThreadExecutor().start(step, lanes["thread"], run.settings.max_concurrency or DEFAULT_THREADS)
        if "inline" in lanes:
            InlineExecutor().start(step, lanes["inline"], 1)

    def wind_down(self) -> None:
        """Cancel the running coroutines because a task has failed. Plain functions cannot be stopped."""
        if self._coroutines is not None:
            self._coroutines.wind_down()

    def end(self, *, wait: bool) -> None:
        """Cancel running coroutines, and wait for their clean-up unless `wait` is False."""
        if self._coroutines is not None:
            self._coroutines.end(wait=wait)


def indices_by_lane(lane_by_task: Sequence[Lane], limit: int | None) -> Mapping[Lane, Sequence[int]]:
    """Return the indices of the tasks by lane.

    If the tasks have several lanes, and there are more of them than `limit`, those of the lane "thread" are moved to
    the lane "loop". Then a single executor starts coroutines and plain functions, and can count the running tasks.
    """
    lanes = set(lane_by_task)
    if len(lanes) == 1:
        return {lane_by_task[0]: range(len(lane_by_task))}
    if limit is not None and limit < len(lane_by_task):
        lane_by_task = ["inline" if lane == "inline" else "loop" for lane in lane_by_task]
        lanes = set(lane_by_task)
    return {lane: [index for index, other in enumerate(lane_by_task) if other == lane] for lane in sorted(lanes)}
