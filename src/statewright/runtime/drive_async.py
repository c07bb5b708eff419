"""The driver that performs effects on an event loop.

A lone coroutine node is awaited in the driver's own coroutine, without an asyncio task. A plain function runs on a
worker thread, so that a node that blocks never blocks the loop, unless its node says `inline=True`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, cast

from statewright.checkpoint import Checkpoint, Task
from statewright.clock import Timer
from statewright.errors import CheckpointConflict, Fenced, ThreadBusy
from statewright.ids import draw_checkpoint_id
from statewright.promise import comes_later
from statewright.runtime.attempt import perform
from statewright.runtime.attempt_async import call_function, perform_async
from statewright.runtime.attempts_async import call_later, lent_async, pause, perform_guarded_async
from statewright.runtime.awaiting import answered, awaited_in_any_case
from statewright.runtime.control import RunControl
from statewright.runtime.drive_sync import lanes_of, note_on_failure
from statewright.runtime.effects import Core, Effect, Emit, Failure, Outcome, RunTasks, Save, SaveCallers
from statewright.runtime.executor import InlineExecutor, ThreadExecutor
from statewright.runtime.loop import note_failure
from statewright.runtime.loop_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.program import NodeProgram
from statewright.runtime.run import ALL_CLOSED, NONE_CLOSED, Run
from statewright.runtime.saver_calls import ask_saver, handed_over, perform_all, save_callers
from statewright.runtime.scope import Scope, current_scope, enter_scope, leave_scope
from statewright.runtime.standing import is_waited_for, superstep_above
from statewright.runtime.start import run_to_rest
from statewright.runtime.superstep import Superstep
from statewright.runtime.thread_calls import call_in_thread
from statewright.runtime.thread_state import rolled_back
from statewright.runtime.turns import (
    FIRST_LOOK,
    LONGEST_LOOK,
    Keeper,
    Ticket,
    in_line,
    is_first,
    is_over,
    lease_of,
    may_wait,
    next_look,
)
from statewright.runtime.watch import StreamBuffer, tell_broken_off
from statewright.runtime.worker_threads import DEFAULT_THREADS

BUFFERED_PARTS = 1000
"""How many parts of a stream may wait for its reader before the run waits too."""


async def drive_async(run: Run, core: Core) -> None:
    """Perform what the core asks for until it comes to rest; `run.rest` tells how.

    If it is cancelled, what had landed is saved before the cancellation goes on.
    """
    nodes = run.program.nodes
    buffer = run.watch.buffer if run.watch is not None and not run.nested else None
    scope, draws = Scope(run), run.saver is not None
    cancelling = _Cancelling(run) if run.control is not None else None
    cancelled: asyncio.CancelledError | None = None
    token = enter_scope(scope)
    answer: Any = None
    failed: Exception | None = None
    run.closed_step = NONE_CLOSED
    try:
        while True:
            try:
                effect = core.send(answer) if failed is None else core.throw(failed)
            except StopIteration as stopped:  # only the core's own end: nodes are called elsewhere
                run.rest = stopped.value
                if run.unsaved is not None and not run.nested:
                    cancelled = await _flush(run) or cancelled
                break
            answer = failed = None  # the core has it now
            if type(effect) is RunTasks:
                tasks = effect.tasks
                try:
                    if cancelled is not None:  # it came while something was saved
                        answer = [None] * len(tasks)
                    elif len(tasks) == 1:
                        scope.task, scope.checkpoint = tasks[0], effect.checkpoint
                        answer = [await _run_one(scope, nodes[tasks[0].node], tasks[0], effect.checkpoint)]
                    else:
                        answer = await _run_many(run, effect)
                except _Cancelled as error:
                    cancelled, answer = error.signal, error.outcomes
                except asyncio.CancelledError as error:
                    cancelled, answer = error, [None] * len(tasks)
                run.closed_step = effect.checkpoint.step
                answer = answer, draw_checkpoint_id() if draws else None
            else:
                try:
                    answer, signal = await _perform_effect(run, effect)
                    cancelled = signal or cancelled
                except Exception as error:
                    failed = error
            if buffer is not None and len(buffer.parts) >= BUFFERED_PARTS and cancelled is None:
                await buffer.room()
    except BaseException as error:
        failed = None  # its traceback leads here
        tell_broken_off(run, error)
        raise
    finally:
        run.closed_step = ALL_CLOSED
        leave_scope(token)
        core.close()
        if cancelling is not None:
            cancelling.end()
    if cancelling is not None and cancelled is None:
        cancelled = await cancelling.late_signal()
    if _is_cancelled_root(run) and run.control is not None and not run.control.has_stopped:
        await call_in_thread(run.control.wait_until_stopped, run)
    if cancelled is not None and not (cancelling is not None and cancelling.was_mine()):
        raise cancelled


def _is_cancelled_root(run: Run) -> bool:
    return not run.nested and run.rest is not None and run.rest.status == "cancelled"


async def _run_one(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
    """Run a task that nothing else runs beside, without an asyncio task of its own."""
    if node.guards is not None or scope.run.guards_all:
        return await perform_guarded_async(scope, node, task, checkpoint)
    if node.async_lane == "loop":
        return await perform_async(scope, node, task, checkpoint)
    if node.async_lane == "inline":
        return perform(scope, node, task, checkpoint)
    return await call_function(scope, perform, scope, node, task, checkpoint)


async def drive_held(run: Run, given: Any) -> None:
    """Take a run to rest from its input, in its turn where it holds a thread of its own."""
    if run.owner is None or run.nested:
        await _drive_within(run, given)
        return
    run.control = run.control or RunControl()
    keeper = Keeper(run)
    try:
        await _in_turn(run, given)
    finally:
        keeper.end()


async def _drive_within(run: Run, given: Any) -> None:
    """Drive a run that is part of a task, which gives back its slots meanwhile."""
    caller = current_scope()
    try:
        if caller is not None and (caller.holding or caller.lending):
            async with lent_async(caller):
                await drive_async(run, run_to_rest(run, given))
        else:
            await drive_async(run, run_to_rest(run, given))
    finally:
        run.live.pop(run.namespace, None)


async def _in_turn(run: Run, given: Any) -> None:
    """Drive a run; while another one holds its thread, do what `on_busy` says."""
    try:
        await drive_async(run, run_to_rest(run, given))
        return
    except (ThreadBusy, CheckpointConflict) as busy:
        if not may_wait(run, busy):
            raise
    with in_line(run) as ticket:
        while True:
            await _await_turn(run, ticket)
            try:
                if run.on_busy == "rollback":
                    perform_all(run, rolled_back(run))
                await drive_async(run, run_to_rest(run, given))
                return
            except (ThreadBusy, CheckpointConflict) as busy:
                if not may_wait(run, busy):
                    raise


async def _await_turn(run: Run, ticket: Ticket) -> None:
    """Wait until it is the run's turn and its thread is free."""
    seconds = FIRST_LOOK
    while True:
        ticket.called.clear()
        first = is_first(run, ticket)
        if first and is_over(run, await answered(lease_of(run))):
            return
        await pause(run.clock, seconds if first else LONGEST_LOOK, ticket)
        seconds = next_look(seconds, first=first)


class _Cancelled(Exception):  # a signal between two functions of this module
    """The driver was cancelled while tasks ran beside each other."""

    def __init__(self, signal: asyncio.CancelledError, outcomes: list[Outcome | None]) -> None:
        self.signal = signal
        self.outcomes = outcomes
        super().__init__()


class _Cancelling:
    """Lets the control of a run cancel what its driver awaits."""

    def __init__(self, run: Run) -> None:
        assert run.control is not None
        self._control = run.control
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._before = self._task.cancelling()
        self._ended = self._control.cancel_requested  # then the core will not even begin
        self._struck = False
        loop = asyncio.get_running_loop()
        self._calling = self._control.calling(lambda: loop.call_soon_threadsafe(self._strike), run.root)
        self._calling.__enter__()

    def _strike(self) -> None:
        if not self._ended:
            self._struck = True
            self._task.cancel()

    def end(self) -> None:
        self._ended = True
        self._calling.__exit__(None, None, None)

    async def late_signal(self) -> asyncio.CancelledError | None:
        """The cancellation, if it was sent but has not arrived: it must not arrive at somebody else."""
        if self._struck:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError as signal:
                return signal
        return None

    def was_mine(self) -> bool:
        """Whether the cancellation came from the control, and from nobody else."""
        return self._control.cancel_reason is not None and self._task.uncancel() <= self._before


async def _perform_effect(run: Run, effect: Effect) -> tuple[Any, asyncio.CancelledError | None]:
    """What an effect brings that runs no tasks, and the cancellation that came meanwhile."""
    if type(effect) is Emit:
        return run.watch.emit(effect.event) if run.watch is not None else None, None
    if type(effect) is SaveCallers:
        return await call_in_thread(save_callers, effect.caller), None
    if type(effect) is Save and effect.commit.overlaps:
        try:
            answer = ask_saver(run, effect)
        except Exception:
            await _flush(run)  # if the commit before has failed, this one was refused for that: that error comes first
            raise
        before = handed_over(run, answer)
        return await awaited_in_any_case(before) if before is not None else (None, None)
    signal = await _flush(run) if run.unsaved is not None else None
    answer = ask_saver(run, effect)
    if comes_later(answer):
        answer, later = await awaited_in_any_case(answer)
        return answer, later or signal
    return answer, signal


async def _flush(run: Run) -> asyncio.CancelledError | None:
    """Wait until everything is saved; the cancellation that came meanwhile."""
    unsaved, run.unsaved = run.unsaved, None
    if unsaved is None:
        return None
    try:
        return (await awaited_in_any_case(unsaved))[1]
    except BaseException:
        run.commit_failed()
        raise


async def _run_many(run: Run, effect: RunTasks) -> list[Outcome | None]:
    """Run tasks beside each other, each where it runs."""
    if not effect.tasks:
        return []
    loop = asyncio.get_running_loop()
    changed, executor = asyncio.Event(), LoopExecutor(loop)
    step = Superstep(run, effect, lambda: _call_on(loop, changed.set))
    lanes = lanes_of(step, [node.async_lane for node in step.task_nodes()], run.max_concurrency)
    with _following(step):
        try:
            if "thread" in lanes:
                ThreadExecutor().start(step, lanes["thread"], run.max_concurrency or DEFAULT_THREADS)
            if "loop" in lanes:
                executor.start(step, lanes["loop"], run.max_concurrency or DEFAULT_IN_FLIGHT)
            if "inline" in lanes:
                InlineExecutor().start(step, lanes["inline"], 1)
            await _until_ended(step, changed)
            if not step.closed:
                executor.wind_down()
                await _grace(step, changed)
        except asyncio.CancelledError as signal:
            step.close()
            await executor.cancel()
            raise _Cancelled(signal, step.outcomes) from None
        finally:
            step.close()
            await executor.cancel()
    return step.outcomes


async def _until_ended(step: Superstep, changed: asyncio.Event) -> None:
    """Wait until every task has landed, one has failed, or the superstep ends in which this graph was called."""
    while not (step.closed or step.ending):
        changed.clear()
        if not (step.closed or step.ending):
            await _changed(step, changed)


async def _changed(step: Superstep, changed: asyncio.Event) -> None:
    """Wait for a change. If the wait is cancelled since a task beside the caller has failed, start nothing more."""
    try:
        await changed.wait()
    except asyncio.CancelledError:
        if not is_waited_for(step.run):
            raise
        step.end()


async def _grace(step: Superstep, changed: asyncio.Event) -> None:
    """Say what has failed, and wait for what cannot be stopped until its time is over."""
    run, grace = step.run, step.run.sibling_grace
    if step.failure is not None:
        await _save_failure(step, step.failure)
    timer: Timer | None = None
    try:
        if grace is not None:
            timer = call_later(asyncio.get_running_loop(), run.clock, grace, step.close_and_tell)
        while not step.closed:
            changed.clear()
            if not step.closed:
                await _changed(step, changed)
    except Exception as error:  # of the clock: what has failed is more important
        note_on_failure(step, "Tasks beside it could not be waited for", error)
    finally:
        if timer is not None:
            timer.cancel()


async def _save_failure(step: Superstep, failure: Failure) -> None:
    """Save that a task has failed. If that does not work, it is tried again with the end of the superstep."""
    try:
        await _perform_all(step.run, note_failure(step.run, step.checkpoint, failure))
    except Fenced:
        step.close()  # what others bring could not be saved any more
    except Exception as error:
        note_on_failure(step, "It could not be saved at once", error)


async def _perform_all(run: Run, effects: Generator[Effect, Any, None]) -> None:
    """Perform storage effects; if that is cancelled, they are performed all the same."""
    signal: asyncio.CancelledError | None = None
    for effect in effects:
        signal = (await _perform_effect(run, effect))[1] or signal
    if signal is not None:
        raise signal


@contextmanager
def _following(step: Superstep) -> Generator[None]:
    """While the block runs, the superstep ends with the one in which this graph was called."""
    run, above = step.run, superstep_above(step.run)
    run.superstep = step
    try:
        with above.telling(lambda: step.follow(above)) if above is not None else nullcontext():
            yield
    finally:
        run.superstep = None


def _call_on(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call back on a loop, from any thread; nobody waits there if it is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


async def stream_parts(run: Run, given: Any, buffer: StreamBuffer) -> AsyncGenerator[Any, None]:
    """The parts of a stream, while a task of its own drives the run. Closing the iterator cancels the run."""
    loop = asyncio.get_running_loop()
    added = asyncio.Event()
    buffer.wake = lambda: loop.call_soon_threadsafe(added.set)
    driving = loop.create_task(drive_held(run, given))
    driving.add_done_callback(lambda _: added.set())
    try:
        while not driving.done() or buffer.parts:
            await added.wait()
            added.clear()
            for part in buffer.take():
                yield part
        await driving
    finally:
        driving.cancel()
        if not driving.done():
            await asyncio.wait([driving])
