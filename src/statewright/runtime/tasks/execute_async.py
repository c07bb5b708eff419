"""Execute one task once on an event loop: the asynchronous version of `execute.execute_task`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from statewright.channels import CONTAINERS
from statewright.checkpoint import NO_ARG, Checkpoint, Task, TaskResult
from statewright.errors import NodeCancelledError
from statewright.runtime.concurrency.thread_calls import begin_in_thread
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.outcome import Outcome
from statewright.runtime.tasks.execute import (
    begin_task,
    conclude_task,
    evaluate_route,
    finish_task,
    injected_kwargs,
    read_child_commands,
    read_result,
    routing_state,
    set_targets,
    settle_error,
    state_args,
)
from statewright.runtime.tasks.interrupt import ChildCommand
from statewright.runtime.tasks.liveness import check_not_refused, may_finish_functions
from statewright.runtime.tasks.scope import Scope, SiblingGroup


async def execute_task_async(
    scope: Scope,
    node: NodeProgram,
    task: Task,
    checkpoint: Checkpoint,
    group: SiblingGroup | None = None,
    index: int = 0,
) -> Any:
    """Run a task on the event loop.

    Return its outcome; None if it runs concurrently with others in `group`, which gets the outcome instead.
    """
    outcome: Outcome
    if group is not None:
        # The scope is not created by the executor, because short-lived objects cost the garbage collector less.
        scope = scope.enter_sibling(group, task, index)
    try:
        if scope.fast_path and node.reads_all and task.arg is NO_ARG:  # as in `execute_task`
            state: Any = checkpoint.values.copy()
            for name in node.containers:
                if type(value := state.get(name)) in CONTAINERS:
                    state[name] = value.copy()
        else:
            state = begin_task(scope, node, task, checkpoint)
        if node.acall is None:
            args, kwargs = state_args(node, state), injected_kwargs(node.injected, scope)
            answer = await call_function(scope, node.call, *args, **kwargs)
        elif node.state_only:
            answer = await node.acall(state)
        else:
            answer = await node.acall(*state_args(node, state), **injected_kwargs(node.injected, scope))
        if node.has_async_routes:
            outcome = await conclude_task_async(scope, node, task, checkpoint, answer)
        else:
            outcome = conclude_task(scope, node, task, checkpoint, answer)
    except asyncio.CancelledError as error:
        if is_cancelled_by_run(scope):
            raise
        outcome = settle_error(scope, node, task, NodeCancelledError(node.name, error))
    except ChildCommand as signal:
        outcome = await _settle_child_command(scope, node, task, checkpoint, signal)
    except GeneratorExit:  # the coroutine is dropped, maybe in a finaliser: no other work is allowed here
        raise
    except BaseException as error:
        outcome = settle_error(scope, node, task, error)
    return outcome if scope.sibling_group is None else scope.sibling_group.report_end(scope, outcome)


async def _settle_child_command(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, signal: ChildCommand
) -> Outcome:
    """Do the same as `settle_error` for a Command from a subgraph, but await conditional edges if necessary."""
    if not node.has_async_routes:
        return settle_error(scope, node, task, signal)
    try:
        return await conclude_task_async(scope, node, task, checkpoint, read_child_commands(scope, node, task, signal))
    except GeneratorExit:
        raise
    except BaseException as error:
        return settle_error(scope, node, task, error)


def is_cancelled() -> bool:
    """Return True if the current asyncio task was cancelled; False if a node has raised a CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_cancelled_by_run(scope: Scope) -> bool:
    """Return True if the run has cancelled the task; False if the node has cancelled its own asyncio task."""
    return scope.sibling_group.is_stopping if scope.sibling_group is not None else is_cancelled()


async def call_function(scope: Scope, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function on a thread, and return its result.

    If the run is a subgraph that is cancelled only because a sibling of its caller has failed, the function is still
    awaited, so that its result is saved and its work is not repeated. Then the run ends before its next superstep.
    """
    future = begin_in_thread(function, *args, **kwargs)
    if scope.run.parent is None:
        return await future
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if not may_finish_functions(scope.run):
                future.cancel()
                raise
    return future.result()


async def conclude_task_async(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, answer: Any
) -> TaskResult:
    """Do the same as `conclude_task` for a node with conditional edges that are coroutine functions."""
    result = read_result(scope, node, task, answer)
    if node.routes and not result.goto:
        state = routing_state(scope, checkpoint, result)
        choices = [evaluate_route(route, scope, state) for route in node.routes]
        awaited = [await choice if inspect.isawaitable(choice) else choice for choice in choices]
        set_targets(scope.run, node, result, awaited)
    check_not_refused(scope)
    return finish_task(scope, node, checkpoint, result)
