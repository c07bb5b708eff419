"""Execute one task once: from the state to a result.

A task goes through three steps: `begin_task` reads its input, then the node is called, and `conclude_task` converts
the return value of the node (the *answer*) to writes and targets. If an exception is raised, `settle_error` converts it
to an outcome, unless the error has to end the process or the run. `execute_task` executes a task whose node is a plain
function, `execute_async.execute_task_async` a task whose node is a coroutine function.

The end of a task is emitted once: by `finish_task` for a result, by `report_outcome` for a failure or a pause. A task
with policies may have several attempts, so `retries` calls `report_outcome` for its result once no attempt follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from statewright.channels import CONTAINERS, COPIED_UPDATES, copy_update, copy_writes
from statewright.checkpoint import NO_ARG, Checkpoint, Interrupt, Task, TaskResult, Values
from statewright.errors import (
    BudgetExceeded,
    GraphDrained,
    InvalidUpdateError,
    MutatedState,
    NodeCancelledError,
    RunCancelled,
    UnknownTarget,
    add_note,
)
from statewright.graph import (
    END,
    START,
    STOP,
    Command,
    NodeError,
    NodeOutput,
    ParentCommand,
    Runtime,
    Send,
    read_node_output,
)
from statewright.runtime.core.commit import error_text
from statewright.runtime.core.events import emit_task_event, emit_task_finished, emit_task_started
from statewright.runtime.core.fold import fold_results, fold_writes, write_pairs
from statewright.runtime.core.graph_migration import renamed_target
from statewright.runtime.core.program import NodeProgram, Route
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.context import RuntimeHost, previous_of, writer_of
from statewright.runtime.tasks.inputs import changed_channels, input_containers, take_snapshot, with_managed
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.liveness import check_not_refused, override_if_refused
from statewright.runtime.tasks.scope import Scope
from statewright.state import Writes

RUN_ENDING_ERRORS: Final = (RunCancelled, BudgetExceeded, GraphDrained)
"""Errors that end the whole run, not only the run of the subgraph that raises them. They are neither retried nor passed
to error handlers, because no node has failed."""


def execute_task(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
    """Run a task whose node and conditional edges are plain functions."""
    try:
        if scope.fast_path and node.reads_all and task.arg is NO_ARG:
            # The same as `begin_task` and the reader of the node, without the cost of calling them.
            state: Any = checkpoint.values.copy()
            for name in node.containers:
                if type(value := state.get(name)) in CONTAINERS:
                    state[name] = value.copy()
        else:
            state = begin_task(scope, node, task, checkpoint)
        if node.state_only:
            answer = node.call(state)
        else:
            answer = node.call(*state_args(node, state), **injected_kwargs(node.injected, scope))
        return conclude_task(scope, node, task, checkpoint, answer)
    except BaseException as error:
        return settle_error(scope, node, task, error)


def begin_task(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Any:
    """Read the input of the node, and emit the start of the task."""
    if scope.fast_path:
        return node.read(checkpoint.values, task.arg)
    run = scope.run
    scope.input = state = read_input(scope, node, task, checkpoint)
    if run.program.debug:
        scope.mutation_snapshot = take_snapshot(checkpoint.values), take_snapshot(input_containers(state))
    if run.emitter is not None and node.name != START and (scope.attempt is None or not scope.attempt.is_repeat):
        # Instruments get an input of their own, because the node may change its input in place.
        event_input = read_input(scope, node, task, checkpoint) if run.emitter.wants("task_started") else state
        emit_task_started(run.emitter, scope, event_input)
        # A lone task begins with its superstep. A scope that shares its slots is one of a limited task's on a thread.
        if scope.sibling_group is not None or scope.is_inline or scope.shares_slots:
            emit_task_event("task_begun", scope, None)
    return state


def read_input(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Any:
    """Return a new input for the node of a task. The node may change it, because containers in it are copies."""
    run, values = scope.run, checkpoint.values
    if run.program.managed_fields:
        values = with_managed(values, run.program.managed_fields, checkpoint.step, run.step_limit)
    return node.read(values, task.arg)


def state_args(node: NodeProgram, state: Any) -> tuple[Any, ...]:
    """Return the positional arguments for a node: the input, if the node has a parameter for it."""
    return (state,) if node.takes_state else ()


def injected_kwargs(injected: Sequence[tuple[str, str]] | None, scope: Scope) -> dict[str, Any]:
    """Return the keyword arguments to inject. `injected` has pairs (name of a parameter, name of a service)."""
    return {parameter: _INJECTED[service](scope) for parameter, service in injected} if injected else {}


def conclude_task(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, answer: Any) -> TaskResult:
    """Return the result of a task whose node has returned `answer`: writes, and the targets that follow."""
    fields = node.plain_keys
    if type(answer) is dict and fields is not None and answer.keys() <= fields:  # needs no preparation
        writes: Writes = answer  # pyright: ignore[reportUnknownVariableType]
        if (node.kept_updates or scope.sibling_group is not None or scope.run.nested) and node.remote is None:
            writes = _copy_writes(scope, node, answer)  # pyright: ignore[reportUnknownArgumentType]
        result = TaskResult(task, writes, node.successors)
    else:
        result = read_result(scope, node, task, answer)
    if node.routes and not result.goto:
        program = scope.run.program
        if node.single_route is not None:
            result.folded = state = fold_writes(program, checkpoint.values, result)
            # The function gets a shallow copy, so it must not change lists or dicts.
            choice = node.single_route.path(state.copy())
            if type(choice) is str and (target := node.single_route.targets_by_choice.get(choice)) is not None:
                result.targets = () if target == END else (target,)
            else:
                set_targets(scope.run, node, result, [choice])
        else:
            state = routing_state(scope, checkpoint, result)
            set_targets(scope.run, node, result, [evaluate_route(route, scope, state) for route in node.routes])
    if scope.refusals:
        check_not_refused(scope)
    return result if scope.fast_path else finish_task(scope, node, checkpoint, result)


def _copy_writes(scope: Scope, node: NodeProgram, answer: dict[str, Any]) -> Writes:
    """Return the writes of an answer, with copies of the containers that the node might still change.

    A channel may keep the very list or dict that the node has returned. Moreover, the writes of concurrent tasks and of
    subgraphs are folded later, and until then the node may run again and return the same object with other contents.
    """
    folded_later = scope.sibling_group is not None or scope.run.nested
    writes = answer.copy() if folded_later else answer
    for name, update in answer.items():
        if type(update) in COPIED_UPDATES and (folded_later or name in node.kept_updates):
            writes = answer.copy() if writes is answer else writes
            writes[name] = copy_update(update)
    return writes


def _merge_interrupts(error: BaseException) -> BaseException:
    """Merge an exception group that contains only pauses into one Paused; return any other error unchanged."""
    leaves, interrupts = [error], list[Interrupt]()
    while leaves:
        leaf = leaves.pop(0)
        if isinstance(leaf, Paused):
            interrupts += leaf.interrupts
        elif isinstance(leaf, BaseExceptionGroup):
            leaves = [*cast("BaseExceptionGroup[BaseException]", leaf).exceptions, *leaves]
        else:
            return error
    return Paused(*interrupts)


def settle_error(scope: Scope, node: NodeProgram, task: Task, error: BaseException) -> Outcome:
    """Return the outcome of a task whose node has raised `error`. Errors that end the process or the run are raised."""
    outcome: Outcome
    error = override_if_refused(scope, error if isinstance(error, Exception) else _merge_interrupts(error))
    if isinstance(error, ChildCommand):
        return _settle_child_command(scope, node, task, error)
    if isinstance(error, Paused):
        outcome = Pause(task, error.interrupts)
    elif isinstance(error, ParentCommand):
        outcome = Failure(task, error if scope.run.nested else _no_parent_error(node))
    elif not isinstance(error, Exception):
        if type(error).__name__ == "CancelledError":  # compared by name, because asyncio may not have been imported
            error = NodeCancelledError(node.name, error)
        elif scope.sibling_group is None:
            raise error  # ends the process or the run; with siblings, the superstep ends first, as for any failure
        outcome = Failure(task, error)
    elif node.handler is not None and not isinstance(error, RUN_ENDING_ERRORS):
        try:
            node_error = NodeError(node.name, error, read_failed_input(scope, node, task))
        except Exception as read_error:  # raised by a schema: without an outcome the superstep would wait forever
            read_error.__context__ = error
            outcome = Failure(task, read_error)
        else:
            outcome = TaskResult(task, {}, [Send(node.handler, node_error)], goto=True)
    else:
        step = scope.checkpoint.step + 1 if scope.checkpoint else 0
        number = scope.attempt.number if scope.attempt else 1
        add_note(error, f"in node {node.name!r}, step {step}, attempt {number}")
        outcome = Failure(task, error)
    return report_outcome(scope, task, outcome)


def report_outcome(scope: Scope, task: Task, outcome: Outcome) -> Outcome:
    """Emit the end of a task, and return its outcome; a Failure if a listener has raised an error."""
    emitter = scope.run.emitter
    if emitter is not None:
        try:
            emit_task_finished(emitter, scope, outcome)
        except Exception as error:
            if type(outcome) is not Failure:
                return Failure(task, error)
            add_note(outcome.error, f"The event of this failure could not be delivered: {error_text(error)}")
    return outcome


def read_failed_input(scope: Scope, node: NodeProgram, task: Task) -> Any:
    """Return the input that a failed node has received, without the node's changes; None if it has received none."""
    if scope.input is None or scope.checkpoint is None:
        return scope.input
    return read_input(scope, node, task, scope.checkpoint)


def read_child_commands(scope: Scope, node: NodeProgram, task: Task, signal: ChildCommand) -> Any:
    """Return the Commands that a subgraph has returned for this graph, as the answer of the calling node.

    Raises ConflictingWrites if two of the Commands write to a field that holds a single value, as if two tasks had
    written to it.
    """
    scope.mutation_snapshot = None
    program = scope.run.program
    commands: list[Command[Any]] = [
        Command(update=command.update, goto=[renamed_target(program, target) for target in command.targets])
        for command in signal.commands
    ]
    if len(commands) == 1:
        return commands[0]
    results = [
        read_result(scope, node, Task(source, NO_ARG, task.id, number), command)
        for number, (source, command) in enumerate(zip(signal.nodes, commands, strict=True))
    ]
    fold_results(program, cast(Checkpoint, scope.checkpoint).values, results)  # only to detect conflicts
    return commands


def _settle_child_command(scope: Scope, node: NodeProgram, task: Task, signal: ChildCommand) -> Outcome:
    """Return the outcome of a task whose subgraph has returned a Command for this graph.

    It is the same as if the calling node had returned the Command.
    """
    try:
        answer = read_child_commands(scope, node, task, signal)
        result = conclude_task(scope, node, task, cast(Checkpoint, scope.checkpoint), answer)
    except BaseException as error:
        return settle_error(scope, node, task, error)
    return result if scope.attempt is None else report_outcome(scope, task, result)


def _no_parent_error(node: NodeProgram) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"Node {node.name!r} returned a Command for the parent graph, but its graph was not called by another graph. "
        f"Remove graph=Command.PARENT, or call this graph from a node of another one."
    )


def read_result(scope: Scope, node: NodeProgram, task: Task, answer: Any) -> TaskResult:
    """Return the result of a task whose node has returned `answer`, without evaluating conditional edges."""
    updates = node.updates
    if type(answer) is dict or answer is None:
        writes = updates.read(answer, node.name, task)
        if node.writes is not None:
            check_declared(node, writes)
        return TaskResult(task, copy_writes(writes), node.successors)
    parsed: NodeOutput = read_node_output(answer, updates, node.name, task)
    if node.writes is not None:
        check_declared(node, parsed.writes)
    writes = copy_writes(parsed.writes)
    if parsed.targets is None:
        return TaskResult(task, writes, node.successors)
    targets = check_targets(scope.run, node, parsed.targets)
    return TaskResult(task, writes, targets, goto=True)


def check_declared(node: NodeProgram, writes: Writes) -> None:
    """Raise InvalidUpdateError for a write to a field that is not in the `writes=` of the node."""
    allowed = node.writes or frozenset[str]()
    names = writes if isinstance(writes, dict) else [name for name, _ in writes]
    undeclared = next((name for name in names if name not in allowed), None)
    if undeclared is not None:
        raise InvalidUpdateError(
            f"Node {node.name!r} wrote {undeclared!r}, but declares writes={sorted(allowed)}. "
            f"Add the field to writes=, or do not write it."
        )


def finish_task(scope: Scope, node: NodeProgram, checkpoint: Checkpoint, result: TaskResult) -> TaskResult:
    """Return the result of a task, and emit the end of the task, unless it has policies.

    With `compile(debug=True)`, raises MutatedState if the node has changed the state in place.
    """
    run = scope.run
    if scope.mutation_snapshot is not None:
        state_snapshot, input_snapshot = scope.mutation_snapshot
        written = {name for name, _ in write_pairs(result)}
        changed_inputs = changed_channels(input_snapshot, input_containers(scope.input))
        unwritten = (name for name in changed_inputs if name not in written)
        changed = list(dict.fromkeys((*changed_channels(state_snapshot, checkpoint.values), *unwritten)))
        scope.mutation_snapshot = None
        if changed:
            raise MutatedState(node.name, changed)
    if run.emitter is not None and node.name != START and scope.attempt is None:
        emit_task_finished(run.emitter, scope, result)  # for a task with policies, `retries` does so
    return result


def check_targets(run: Run, node: NodeProgram, targets: Sequence[str | Send]) -> tuple[str | Send, ...]:
    """Return the targets other than END. Raises UnknownTarget for a target that does not exist or is not allowed."""
    allowed = node.allowed_targets if node.allowed_targets is not None else run.program.targets
    for target in targets:
        name = target.node if type(target) is Send else target
        if name not in allowed or (name is not target and name in (END, STOP)):
            via = "a Send" if type(target) is Send else "a goto"
            raise UnknownTarget(node.edge_source, name, allowed, via=via)
        if type(target) is Send and target.timeout is not None:
            _allow_timeout(run, node, target)
    return tuple([target for target in targets if type(target) is Send or target != END])


def _allow_timeout(run: Run, node: NodeProgram, send: Send) -> None:
    """Let the run apply the timeout of a Send. Raises InvalidUpdateError for an inline node, which cannot time out."""
    if run.program.nodes[send.node].async_lane == "inline":
        raise InvalidUpdateError(
            f"Node {node.edge_source!r} made a Send to {send.node!r} with a timeout, but that node is inline=True: "
            f"it runs on the thread of the driver, where it cannot time out. Remove the timeout or inline=True."
        )
    run.all_tasks_need_attempts = True  # from now on, tasks of nodes without policies go through `retries` as well


def routing_state(scope: Scope, checkpoint: Checkpoint, result: TaskResult) -> Values:
    """Return the state that conditional edges read: with the task's own writes, and with transient values."""
    program = scope.run.program
    result.folded = fold_writes(program, checkpoint.values, result)
    if not program.managed_fields:
        return result.folded
    return with_managed(result.folded, program.managed_fields, checkpoint.step, scope.run.step_limit)


def evaluate_route(route: Route, scope: Scope, values: Values) -> Any:
    """Call the path function of a conditional edge, and return its choice; an awaitable for a coroutine function."""
    state = route.read(values, NO_ARG)
    return route.path(state, **injected_kwargs(route.injected, scope)) if route.injected else route.path(state)


def set_targets(run: Run, node: NodeProgram, result: TaskResult, choices: Sequence[Any]) -> None:
    """Set the targets of a result: the targets of plain edges, and the targets that conditional edges have chosen.

    `choices` has the value that the path function of each conditional edge has returned.
    """
    targets: list[str | Send] = list(node.successors)
    for route, choice in zip(node.routes, choices, strict=True):
        if type(choice) is str and choice in route.targets_by_choice:
            targets.append(route.targets_by_choice[choice])
        else:
            names = cast(Sequence[Any], choice) if isinstance(choice, list | tuple) else (choice,)
            targets.extend([_target_of(run, node, route, name) for name in names])
    result.targets = [target for target in targets if type(target) is Send or target != END]


def _target_of(run: Run, node: NodeProgram, route: Route, choice: Any) -> str | Send:
    """Return the target for a choice of a conditional edge. Raises UnknownTarget if the choice has no target."""
    program = run.program
    if type(choice) is Send and choice.node in program.graph.nodes:
        if choice.timeout is not None:
            _allow_timeout(run, node, choice)
        return choice
    if route.targets is not None:
        try:
            if choice in route.targets:
                return route.targets[choice]
        except TypeError:  # the choice is not hashable, which is a mistake
            pass
    if isinstance(choice, str):
        choice = str.__str__(choice)  # the plain value, for a member of a string enumeration
    if route.targets is None and type(choice) is str and choice in program.targets:
        return choice
    allowed = map(str, route.targets) if route.targets is not None else program.targets
    target = choice.node if type(choice) is Send else choice
    raise UnknownTarget(node.edge_source, target, allowed, via=f"by its conditional edge {route.branch.name!r}")


# -- the services that a node or a conditional edge may request as parameters


def _node_error(scope: Scope) -> NodeError | None:
    """Return the error that an error handler handles; None in other nodes."""
    arg = scope.task.arg if scope.task else None
    return arg if isinstance(arg, NodeError) else None


_INJECTED: Final[dict[str, Callable[[Scope], Any]]] = {
    "config": lambda scope: scope.run.node_config(),
    "runtime": lambda scope: Runtime(RuntimeHost(scope)),
    "writer": lambda scope: writer_of(scope.pinned_copy()),  # a copy, because the writer may outlive the task
    "store": lambda scope: scope.run.ports.store,
    "previous": previous_of,
    "error": _node_error,
}
