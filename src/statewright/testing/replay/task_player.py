"""Replay of recorded tasks.

The outcome of a function node is read from the file. If the node is a graph, the recorded run of the graph is replayed
instead, and the outcome is computed from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from statewright.checkpoint import BranchKey, Checkpoint, InMemorySaver, Task, TaskResult
from statewright.checkpoint.forms import restore_result
from statewright.errors import UnknownTarget, suggestion
from statewright.graph import Memory, ParentCommand, Send
from statewright.runtime import CompiledGraph
from statewright.runtime.concurrency.private_loop import run_on_private_loop
from statewright.runtime.core.program import NodeProgram, is_error_handled
from statewright.runtime.core.subgraph import Pairs, common_fields, subgraph_calls
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run, SubgraphCall
from statewright.runtime.lifecycle.subgraph_call import begin_call, call_branch_key
from statewright.runtime.tasks.execute import (
    begin_task,
    check_targets,
    evaluate_route,
    read_child_commands,
    read_result,
    routing_state,
    set_targets,
    settle_error,
)
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.serde.serde import Serde
from statewright.testing.clock import FakeClock
from statewright.testing.replay.checks import RunChecks, plain_targets, plain_writes
from statewright.testing.replay.forms import outcome_to_record
from statewright.testing.replay.mismatch import Position, ReplayMismatch
from statewright.testing.replay.records import Completed, Failed, ForParent, Interrupted, RecordedRun, RecordedTask


@dataclass(slots=True)
class Playback:
    """The data that all runs of a replay share."""

    file: str
    serde: Serde
    graphs: Mapping[str, CompiledGraph]
    """The graphs whose runs can be replayed within a task, by name."""
    saver: InMemorySaver = field(default_factory=InMemorySaver)
    clock: FakeClock = field(default_factory=FakeClock)
    unchecked: dict[str, None] = field(default_factory=dict[str, None])
    """The names of called graphs that are not among `graphs`, as an ordered set."""


PlayNested = Callable[[RecordedRun, CompiledGraph, BranchKey | None, Any, SubgraphCall], RunOutcome | None]
"""Plays the recorded run of a graph that a task has called, and returns its outcome; None if it was abandoned.

The arguments are the recorded run, the graph, the branch on which the run saves (None if it does not save), the input,
and the call.
"""


class TaskPlayer:
    """Plays the tasks of a recorded run."""

    def __init__(self, playback: Playback, run: Run, checks: RunChecks, play_nested: PlayNested) -> None:
        self._playback = playback
        self._run = run
        self._checks = checks
        self._play_nested = play_nested

    def play(self, position: Position, task: Task, record: RecordedTask, checkpoint: Checkpoint) -> Outcome | None:
        """Return the outcome of a task; None if the recorded task was stopped. Raises ReplayMismatch."""
        node = self._run.program.nodes[task.node]
        scope = Scope(self._run, task, checkpoint)
        token = enter_scope(scope)
        try:
            if node.node is not None and node.node.is_subgraph and record.calls:
                return self._play_subgraph(position, scope, node, record)
            self._play_calls(scope, record)
            return self._restore_outcome(position, scope, node, record)
        finally:
            leave_scope(token)

    def _restore_outcome(
        self, position: Position, scope: Scope, node: NodeProgram, record: RecordedTask
    ) -> Outcome | None:
        """Return the recorded outcome of a task, with its targets checked or computed again."""
        task, recorded = cast(Task, scope.task), record.outcome
        if recorded is None:
            return None
        if isinstance(recorded, Interrupted):
            return Pause(task, tuple(recorded.interrupts))
        if isinstance(recorded, Failed):
            return Failure(task, recorded.error)
        if isinstance(recorded, ForParent):
            return Failure(task, ParentCommand(recorded.command, *recorded.more))
        self._check_fields(position, recorded)
        targets = [self._checks.renamer.rename_target(target) for target in recorded.targets]
        result = restore_result((recorded.writes, targets, recorded.goto), task)
        if recorded.goto:
            if not is_error_handled(result):
                result.targets = self._check_targets(position, node, targets)
            return result
        result.targets = node.successors
        self._route(position, scope, node, result, targets)
        self._checks.check_targets(position, targets, result.targets)
        return result

    def _check_fields(self, position: Position, recorded: Completed) -> None:
        """Raise ReplayMismatch for a write to a field that the state no longer has."""
        program = self._run.program
        for name, _ in plain_writes(recorded.writes) if program.graph.schema.closed else ():
            if name not in program.channels:
                hint = "  " + suggestion(name, program.channels, noun="Fields")
                write = f"a write to {name!r}"
                raise ReplayMismatch(position, "it wrote to an unknown field", write, "no such field", hint)

    def _check_targets(self, position: Position, node: NodeProgram, targets: list[Any]) -> Sequence[str | Send]:
        try:
            return check_targets(self._run, node, targets)
        except UnknownTarget as error:
            what = "its recorded targets are not allowed"
            raise ReplayMismatch(position, what, plain_targets(targets), f"{error}") from error

    def _route(
        self, position: Position, scope: Scope, node: NodeProgram, result: TaskResult, recorded: list[Any]
    ) -> None:
        """Set the targets of a result: evaluate the conditional edges of the node on the state after its writes.

        `recorded` are the recorded targets, for error messages.
        """
        if not node.routes:
            return
        try:
            state = routing_state(scope, cast(Checkpoint, scope.checkpoint), result)
            choices = [_run_choice(evaluate_route(route, scope, state)) for route in node.routes]
            set_targets(self._run, node, result, choices)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            raise ReplayMismatch(position, "its conditional edge raises", plain_targets(recorded), message) from error

    # -- subgraphs

    def _play_calls(self, scope: Scope, record: RecordedTask) -> None:
        """Play the graphs that the function of a node called."""
        played_namespaces = set[str]()
        for call in record.calls:
            graph = self._playback.graphs.get(call.graph)
            if graph is None:
                self._playback.unchecked[call.graph] = None
                continue
            # The graph's namespace contains the calling task, unless the graph keeps its own state on the thread.
            caller, is_own = scope.run, record.id in call.namespace
            branch: BranchKey | None = None
            if call.saves and caller.branch_key is not None:
                branch = caller.branch_key._replace(namespace=call.namespace)
                if is_own and not caller.config.keeps_calls:
                    caller.open_namespaces.add(call.namespace)
            subgraph_call = begin_call(scope, graph.program, "call" if is_own else "thread")
            subgraph_call.namespace = call.namespace
            is_repeated = call.namespace in played_namespaces
            subgraph_call.is_retry = is_repeated and bool(call.steps) and call.steps[0].is_input
            played_namespaces.add(call.namespace)
            self._play_nested(call, graph, branch, call.input, subgraph_call)

    def _play_subgraph(
        self, position: Position, scope: Scope, node: NodeProgram, record: RecordedTask
    ) -> Outcome | None:
        """Return the outcome of a task whose node is a graph. The graph is played once for each recorded attempt."""
        outcome: Outcome | None = None
        for call in record.calls:
            attempt = Scope(scope.run, scope.task, scope.checkpoint)
            outcome = self._play_attempt(position, attempt, node, call)
        recorded = record.outcome
        # A timeout or a cancellation comes from outside the graph, so the replay of the graph does not reproduce it.
        failed_from_outside = isinstance(recorded, Failed) and not isinstance(outcome, Failure)
        if outcome is None or recorded is None or failed_from_outside:
            return self._restore_outcome(position, scope, node, record)
        self._checks.check_outcome(position, recorded, outcome_to_record(outcome))
        return outcome

    def _play_attempt(self, position: Position, scope: Scope, node: NodeProgram, call: RecordedRun) -> Outcome | None:
        """Play one attempt at a node that is a graph; return None if the recorded attempt was abandoned."""
        run, task = scope.run, cast(Task, scope.task)
        program, definition = run.program, node.node
        assert definition is not None
        fields = frozenset(program.channels) if program.graph.schema.closed else None
        callee = _PlayedSubgraph(self._play_nested, cast(CompiledGraph, definition.action), scope, call)
        play, _ = subgraph_calls(cast(Any, callee), definition.memory, fields, frozenset(program.merging_channels))
        checkpoint = cast(Checkpoint, scope.checkpoint)
        try:
            try:
                answer: Any = play(begin_task(scope, node, task, checkpoint))
            except ChildCommand as signal:
                answer = read_child_commands(scope, node, task, signal)
            result = read_result(scope, node, task, answer)
            if not result.goto:
                self._route(position, scope, node, result, [])
            return result
        except ReplayMismatch:
            raise
        except _Abandoned:
            return None
        except BaseException as error:
            return settle_error(scope, node, task, error)


class _Abandoned(BaseException):
    """Raised in place of a subgraph's result, because its recorded run was abandoned."""


class _PlayedSubgraph:
    """A subgraph whose recorded run is played in place of a new run."""

    def __init__(self, play: PlayNested, graph: CompiledGraph, scope: Scope, call: RecordedRun) -> None:
        self._play = play
        self._graph = graph
        self._scope = scope
        self._call = call
        self.reported = graph.reported
        self.passes_state_on = graph.passes_state_on

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """Return or raise what `CompiledGraph.call_within` returned or raised in the recorded run."""
        scope, graph = self._scope, self._graph
        call = begin_call(scope, graph.program, memory)
        branch = call_branch_key(scope, call.namespace, memory, keep=scope.run.config.keeps_calls)
        schema = graph.graph.input_schema
        value = common_fields(state, frozenset(schema.fields) if schema.closed else None)
        outcome = self._play(self._call, graph, branch, value, call)
        if outcome is None:
            raise _Abandoned
        if outcome.error is not None:
            if isinstance(outcome.error, ParentCommand):
                raise ChildCommand(*outcome.error.commands, nodes=outcome.error.nodes)
            raise outcome.error
        if outcome.status in ("waiting", "paused"):
            raise Paused(*outcome.interrupts)
        return graph.program.output(outcome.checkpoint.values, plain=True), outcome.checkpoint.reported


def _run_choice(choice: Any) -> Any:
    """Return the choice of a conditional edge; await it if the edge is async."""
    if not inspect.isawaitable(choice):
        return choice

    async def wait() -> Any:
        return await choice

    return run_on_private_loop(wait)
