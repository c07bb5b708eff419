"""The driver that performs effects on an event loop.

If a superstep has a single task, and its node is a coroutine function, the driver awaits it in its own coroutine,
without another asyncio task. A plain function runs on a worker thread, so that it does not block the loop, unless its
node has `inline=True`.

The driver's asyncio task may be cancelled at any `await`, but a write in progress cannot be stopped, and the results of
tasks that have ended must be saved. So a cancellation is not raised where it arrives. The CancelledError is kept as a
value: as `cancelled` once the run knows it, as `cancellation` before that. The core receives the outcomes so far, saves
them and stops, and only then is the CancelledError raised. It does not reach the caller if the run's own control has
cancelled the task (`_ControlCancellation`), because then the outcome of the run reports the cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, cast

from statewright.async_futures import adrive, aresolve, wait_for_all, wait_uncancelled
from statewright.checkpoint import Checkpoint, Task
from statewright.clock import Timer
from statewright.errors import LeaseLost
from statewright.futures import is_future
from statewright.ids import new_checkpoint_id
from statewright.runtime.concurrency.asyncio_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.concurrency.executors import InlineExecutor, ThreadExecutor
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.thread_calls import begin_in_thread, call_in_thread
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers
from statewright.runtime.core.effects import AwaitTurn, Effect, Emit, RunGenerator, RunTasks, Save, SaveCallers, Stamp
from statewright.runtime.core.events import emit_run_aborted
from statewright.runtime.core.partial_results import save_failure
from statewright.runtime.core.program import Lane, NodeProgram
from statewright.runtime.drivers.saver_calls import (
    are_callers_being_saved,
    ask_saver,
    check_saved,
    replace_in_flight,
    save_callers,
    wait_until_callers_saved,
)
from statewright.runtime.drivers.sync import add_failure_note, indices_by_lane
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import ALL_CLOSED, NONE_CLOSED, Run
from statewright.runtime.lifecycle.subgraph_call import CallInProgress
from statewright.runtime.lifecycle.thread_lease import (
    FIRST_POLL,
    LONGEST_POLL,
    LeaseRenewer,
    enter_queue,
    is_asked_to_stop,
    is_free_for,
    is_its_turn,
    load_lease,
    next_poll,
    request_thread,
)
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.execute import execute_task
from statewright.runtime.tasks.execute_async import call_function, execute_task_async
from statewright.runtime.tasks.liveness import may_finish_functions
from statewright.runtime.tasks.retries_async import (
    call_later,
    perform_attempts_async,
    suspended_slots_async,
    wait_for_ticket,
)
from statewright.runtime.tasks.scope import Scope, current_scope, enter_reused_scope, enter_scope, leave_if_possible

BUFFERED_PARTS = 1000
"""When this many parts of a stream are unread, the run waits for its reader."""


async def drive_async(run: Run, core: RunGenerator) -> None:
    """Perform the effects of the core until the run is idle, and set `run.outcome`.

    If this is cancelled, the results of ended tasks are saved before CancelledError is raised.
    """
    nodes = run.program.nodes
    buffer = run.stream_buffer
    scope, saves = Scope(run), run.saver is not None
    control_cancellation = _ControlCancellation(run) if run.control is not None else None
    cancelled: asyncio.CancelledError | None = None
    token = enter_scope(scope)
    reply: Any = None
    error_to_throw: Exception | None = None
    run.closed_step = NONE_CLOSED
    try:
        while True:
            try:
                effect = core.send(reply) if error_to_throw is None else core.throw(error_to_throw)
            except StopIteration as stopped:  # raised by the core itself, because no user code runs in this block
                run.outcome = stopped.value
                if run.in_flight_commit is not None and not run.nested:
                    cancelled = await _flush(run) or cancelled
                break
            # The core has received the reply or the error. An error must not be thrown twice, nor a value kept alive.
            reply = error_to_throw = None
            if type(effect) is RunTasks:
                tasks = effect.tasks
                try:
                    if cancelled is not None:  # the cancellation arrived during a save
                        reply = [None] * len(tasks)
                    elif len(tasks) == 1:
                        scope.task, scope.checkpoint = tasks[0], effect.checkpoint
                        enter_reused_scope((scope, tasks[0], effect.checkpoint, None))
                        reply = [await _run_one(scope, nodes[tasks[0].node], tasks[0], effect.checkpoint)]
                    else:
                        reply = await _run_many(run, effect)
                except _TasksCancelled as error:
                    cancelled, reply = error.cancellation, error.outcomes
                except asyncio.CancelledError as error:
                    cancelled, reply = error, [None] * len(tasks)
                if run.open_calls is not None:
                    reply, cancelled = await _end_calls(run, effect, reply, cancelled)
                run.closed_step = effect.checkpoint.step
                try:
                    reply = (reply, new_checkpoint_id(), run.ports.clock.now()) if saves else (reply, None, None)
                except Exception as error:  # raised by the clock
                    reply, error_to_throw = None, error
            else:
                reply, error_to_throw, cancellation = await _perform_effect(run, effect)
                cancelled = cancellation or cancelled
            if buffer is not None and len(buffer.parts) >= BUFFERED_PARTS and cancelled is None:
                await buffer.wait_until_read()
    except GeneratorExit as error:  # the coroutine was dropped, maybe in a finaliser, where no instrument may be called
        workers.hand_over(partial(emit_run_aborted, run, error))
        if run.open_calls is not None:
            workers.hand_over(run.open_calls.stop)
        raise
    except BaseException as error:
        error_to_throw = None  # breaks a reference cycle: its traceback refers to this frame
        if run.open_calls is not None:
            run.open_calls.stop()
        emit_run_aborted(run, error)
        raise
    finally:
        run.closed_step = ALL_CLOSED
        leave_if_possible(token)
        core.close()
        if control_cancellation is not None:
            control_cancellation.end()
    if control_cancellation is not None and cancelled is None:
        cancelled = await control_cancellation.late_cancellation()
    is_cancelled_root = not run.nested and run.outcome is not None and run.outcome.status == "cancelled"
    if is_cancelled_root and run.control is not None and not run.control.has_stopped:
        run.control.wake(run)  # needed if the control was not cancelled, but only the asyncio task of this coroutine
        await call_in_thread(run.control.wait_until_stopped, run)
    if cancelled is not None and not (control_cancellation is not None and control_cancellation.consume()):
        raise cancelled


async def _run_one(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
    """Run the only task of a superstep, without an asyncio task of its own."""
    if node.policies is not None or scope.run.all_tasks_need_attempts:
        return await perform_attempts_async(scope, node, task, checkpoint)
    if node.async_lane == "loop":
        return await execute_task_async(scope, node, task, checkpoint)
    if node.async_lane == "inline":
        return execute_task(scope, node, task, checkpoint)
    return await call_function(scope, execute_task, scope, node, task, checkpoint)


async def drive_in_turn(run: Run, graph_input: Any) -> None:
    """Wait for the run's turn on its thread if necessary, and drive the run until it is idle."""
    if run.owner is None or run.nested:
        await _drive_without_lease(run, graph_input)
        return
    run.control = run.control or RunControl()
    hold = LeaseRenewer(run, asyncio.get_running_loop())
    try:
        async with hold:
            await drive_async(run, run_until_idle(run, graph_input))
    finally:
        hold.drop_unless_ended()


async def _drive_without_lease(run: Run, graph_input: Any) -> None:
    """Drive a run that saves nothing, or the run of a subgraph. Meanwhile the calling task releases its slots."""
    caller = current_scope()
    with CallInProgress(run):
        if caller is not None and caller.uses_slots:
            async with suspended_slots_async(caller):
                await drive_async(run, run_until_idle(run, graph_input))
        else:
            await drive_async(run, run_until_idle(run, graph_input))


async def _await_turn(run: Run, holder: str) -> tuple[bool, asyncio.CancelledError | None]:
    """Wait until it is the run's turn and its thread is free.

    Return a pair: True, or False if the run was requested to stop instead; and a cancellation that arrived meanwhile.
    """
    ticket = enter_queue(run, asyncio.get_running_loop())
    seconds = FIRST_POLL
    try:
        await aresolve(request_thread(run, holder))
        with run.control.on_cancel(ticket.wake) if run.control is not None else nullcontext():
            while True:
                ticket.woken.clear()
                if is_asked_to_stop(run):
                    return False, None
                first = is_its_turn(run, ticket)
                if first and is_free_for(run, await aresolve(load_lease(run)), holder):
                    return True, None
                await wait_for_ticket(run.ports.clock, seconds if first else LONGEST_POLL, ticket)
                seconds = next_poll(seconds, first=first)
    except asyncio.CancelledError as cancellation:
        return False, cancellation


class _TasksCancelled(Exception):  # never leaves this module
    """The driver was cancelled while tasks ran concurrently; carries their outcomes so far."""

    def __init__(self, cancellation: asyncio.CancelledError, outcomes: list[Outcome | None]) -> None:
        self.cancellation = cancellation
        self.outcomes = outcomes
        super().__init__()


class _ControlCancellation:
    """Lets the control of a run cancel its driver's asyncio task, and distinguishes that from other cancellations."""

    def __init__(self, run: Run) -> None:
        assert run.control is not None
        self._control = run.control
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._requests_before = self._task.cancelling()
        self._has_ended = self._control.cancel_requested  # an earlier request stops the core before its first superstep
        self._has_cancelled = False
        loop = asyncio.get_running_loop()
        self._callback_block = self._control.on_cancel(lambda: loop.call_soon_threadsafe(self._cancel), run.root)
        self._callback_block.__enter__()

    def _cancel(self) -> None:
        if not (self._has_ended or self._has_cancelled):  # only once, because `consume` withdraws only one request
            self._has_cancelled = True
            self._task.cancel()

    def end(self) -> None:
        """From now on, do not cancel the task any more."""
        self._has_ended = True
        self._callback_block.__exit__(None, None, None)

    async def late_cancellation(self) -> asyncio.CancelledError | None:
        """Return the CancelledError of a cancellation that was requested and has not arrived yet, if there is one.

        Otherwise the caller of the driver would receive it.
        """
        if self._has_cancelled:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError as cancellation:
                return cancellation
        return None

    def consume(self) -> bool:
        """Withdraw the cancellation that the control has requested. Return True if nothing else cancelled the task."""
        return self._control.cancel_reason is not None and self._task.uncancel() <= self._requests_before


async def _perform_effect(run: Run, effect: Effect) -> tuple[Any, Exception | None, asyncio.CancelledError | None]:
    """Perform an effect other than RunTasks.

    Return the reply for the core, the error to throw into it instead, and a cancellation that arrived meanwhile.
    """
    cancellation: asyncio.CancelledError | None = None
    try:
        if type(effect) is Stamp:
            return (new_checkpoint_id(), run.ports.clock.now()), None, None
        if type(effect) is Emit:
            return run.emitter.emit(effect.event) if run.emitter is not None else None, None, None
        if type(effect) is SaveCallers:
            saving = begin_in_thread(save_callers, effect.caller)
            cancellation = await wait_for_all([saving])
            return saving.result(), None, cancellation
        if type(effect) is AwaitTurn:
            is_turn, cancellation = await _await_turn(run, effect.holder)
            return is_turn, None, cancellation
        if type(effect) is Save and effect.commit.overlaps:
            previous = run.in_flight_commit
            try:
                reply = replace_in_flight(run, ask_saver(run, effect))
            except Exception:
                if previous is not None:  # if the previous commit has failed, its error has caused this one: raise it
                    cancellation = await wait_uncancelled(previous)
                    check_saved(run, previous)
                raise
        else:
            previous, run.in_flight_commit = run.in_flight_commit, None
            if previous is not None:
                cancellation = await wait_uncancelled(previous)
                check_saved(run, previous)
            if run.saves_on_exit and are_callers_being_saved():
                cancellation = await wait_for_all([begin_in_thread(wait_until_callers_saved)]) or cancellation
            reply = ask_saver(run, effect)
        if is_future(reply):
            cancellation = await wait_uncancelled(reply) or cancellation
            reply = reply.result()
    except Exception as error:
        return None, error, cancellation  # both, because an error must not hide that the run was cancelled
    return reply, None, cancellation


async def _flush(run: Run) -> asyncio.CancelledError | None:
    """Wait for the commit in flight. Return a cancellation that arrived meanwhile."""
    commit, run.in_flight_commit = run.in_flight_commit, None
    if commit is None:
        return None
    cancellation = await wait_uncancelled(commit)
    check_saved(run, commit)
    return cancellation


async def _end_calls(
    run: Run, effect: RunTasks, outcomes: list[Outcome | None], cancelled: asyncio.CancelledError | None
) -> tuple[list[Outcome | None], asyncio.CancelledError | None]:
    """End the `@task` calls of a superstep, and return the outcomes of its tasks and a cancellation.

    If the superstep has a single task, plain functions are awaited first if necessary. For several concurrent tasks
    that has already happened, in `_run_many`. `cancelled` is a cancellation that arrived before.
    """
    calls = run.open_calls
    assert calls is not None
    may_wait = len(effect.tasks) == 1 and (cancelled is None or may_finish_functions(run))
    if may_wait and calls.must_be_awaited(effect.tasks, outcomes):
        try:
            outcomes = await _run_many(run, effect, outcomes)
        except _TasksCancelled as error:
            cancelled, outcomes = error.cancellation, error.outcomes
    run.closed_step = effect.checkpoint.step  # from now on no call may start
    return outcomes, await calls.end_async() or cancelled


async def _run_many(run: Run, effect: RunTasks, lone_outcome: Sequence[Outcome | None] = ()) -> list[Outcome | None]:
    """Run tasks concurrently, each by the executor of its lane, and return their outcomes.

    If the only task has already run, `lone_outcome` has its outcome. Then only its `@task` calls are awaited.
    """
    if not effect.tasks:
        return []
    loop = asyncio.get_running_loop()
    changed, executor = asyncio.Event(), LoopExecutor(loop)
    step = Superstep(run, effect, lambda: _call_on(loop, changed.set))
    lanes: Mapping[Lane, Sequence[int]] = {}
    if not lone_outcome:
        lanes = indices_by_lane([node.async_lane for node in step.task_nodes()], run.settings.max_concurrency)
    with step.running():
        try:
            if lone_outcome:
                step.accept_lone(lone_outcome[0])
            if run.program.has_remote and "loop" in lanes:
                from statewright.runtime.concurrency.remote_executor import start_in_chunks  # loads the executors

                lanes = start_in_chunks(step, lanes)
            if "thread" in lanes:
                ThreadExecutor().start(step, lanes["thread"], run.settings.max_concurrency or DEFAULT_THREADS)
            if "loop" in lanes:
                executor.start(step, lanes["loop"], run.settings.max_concurrency or DEFAULT_IN_FLIGHT)
            if "inline" in lanes:
                InlineExecutor().start(step, lanes["inline"], 1)
            await _wait_for_end(step, changed)
            if not step.closed:
                executor.wind_down()
                await _await_siblings(step, changed)
        except asyncio.CancelledError as cancellation:
            step.close()
            await executor.cancel()
            raise _TasksCancelled(cancellation, step.outcomes) from None
        except GeneratorExit:  # the coroutine was dropped, and must not wait
            step.abandon()
            executor.abandon()
            raise
        except BaseException:
            step.close()
            await executor.cancel()
            raise
        step.close()
        if (cancellation := await executor.cancel()) is not None:
            raise _TasksCancelled(cancellation, step.outcomes)
    return step.outcomes


async def _wait_for_end(step: Superstep, changed: asyncio.Event) -> None:
    """Wait until all tasks have ended, a task has failed, or the superstep in which this graph was called ends."""
    while not (step.closed or step.ending):
        changed.clear()
        if not (step.closed or step.ending):  # checked again, because only a change from now on sets the event
            await _wait_for_change(step, changed)


async def _wait_for_change(step: Superstep, changed: asyncio.Event) -> None:
    """Wait for a change. If this is cancelled because a sibling of the calling task has failed, end the superstep."""
    try:
        await changed.wait()
    except asyncio.CancelledError:
        if not may_finish_functions(step.run):
            raise
        step.end()


async def _await_siblings(step: Superstep, changed: asyncio.Event) -> None:
    """Save the failure that ends the superstep, and wait for plain functions until the end of the grace period."""
    run, grace = step.run, step.run.config.sibling_grace
    if step.failure is not None:
        await _save_failure(step, step.failure)
    timer: Timer | None = None
    try:
        if grace is not None:
            timer = call_later(asyncio.get_running_loop(), run.ports.clock, grace, step.close_and_notify)
        while not step.closed:
            changed.clear()
            if not step.closed:
                await _wait_for_change(step, changed)
    except Exception as error:  # raised by the clock: the failure of the task takes precedence
        add_failure_note(step, "Waiting for its sibling tasks failed", error)
    finally:
        if timer is not None:
            timer.cancel()


async def _save_failure(step: Superstep, failure: Failure) -> None:
    """Save the failure of a task now. If that does not succeed, the end of the superstep will save it."""
    try:
        await _perform_all(step.run, save_failure(step.run, step.checkpoint, failure))
    except LeaseLost:
        step.close()  # later outcomes could not be saved
    except Exception as error:
        add_failure_note(step, "The failure could not be saved at once", error)


async def _perform_all(run: Run, effects: Generator[Effect, Any, None]) -> None:
    """Perform storage effects until the generator returns. A cancellation that arrives meanwhile is raised then."""
    cancelled: asyncio.CancelledError | None = None

    async def perform_one(effect: Effect) -> Any:
        nonlocal cancelled
        reply, error, cancellation = await _perform_effect(run, effect)
        cancelled = cancellation or cancelled
        if error is not None:
            raise error
        return reply

    await adrive(effects, perform_one)
    if cancelled is not None:
        raise cancelled


def _call_on(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Schedule a callback on a loop, from any thread."""
    with suppress(RuntimeError):  # the loop is closed, so nothing waits on it
        loop.call_soon_threadsafe(callback)
