"""One recorded run, played from its input to its end.

The player drives the generator of the core as a driver would, and answers `RunTasks` with outcomes from the file. It
keeps an index into the recorded supersteps, and each event of the core (input applied, superstep finished) is compared
with the record at this index.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, cast

from statewright.checkpoint import BranchKey, Checkpoint, Commit, InMemorySaver, Task, TaskResult
from statewright.clock import as_seconds
from statewright.errors import BudgetExceeded, UnknownTarget, suggestion
from statewright.events import Event
from statewright.graph import Memory, ParentCommand, Send
from statewright.runtime import CompiledGraph
from statewright.runtime.concurrency.private_loop import run_privately
from statewright.runtime.core.effects import Effect, RunTasks, Stamp, StepOutcome
from statewright.runtime.core.program import NodeProgram, is_handed_over
from statewright.runtime.core.subgraph import Pairs, common_fields, subgraph_calls
from statewright.runtime.drivers.saver_calls import perform_effect
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run, SubgraphCall
from statewright.runtime.lifecycle.subgraph_call import begin_call, call_line
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.execute import (
    answer_of_child,
    begin,
    checked_targets,
    evaluate_route,
    read_result,
    routing_view,
    set_targets,
    settle,
)
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.serde.serde import Serde
from statewright.testing.clock import FakeClock
from statewright.testing.replay.checks import RunChecks
from statewright.testing.replay.comparison import plain_targets, plain_task_record, plain_writes
from statewright.testing.replay.forms import plain_tasks, recorded_outcome, restored_checkpoint
from statewright.testing.replay.mismatch import Position, ReplayMismatch
from statewright.testing.replay.names import commit_name
from statewright.testing.replay.records import (
    Completed,
    Failed,
    ForParent,
    Found,
    Interrupted,
    RecordedRun,
    RecordedStep,
    RecordedTask,
)


class Player(Protocol):
    """The player of the whole recording, which holds everything that its runs share."""

    file: str
    serde: Serde
    saver: InMemorySaver
    clock: FakeClock
    graphs: Mapping[str, CompiledGraph]
    unchecked: dict[str, None]

    def replay_nested(
        self,
        recorded: RecordedRun,
        graph: CompiledGraph,
        scope: Scope,
        branch: BranchKey | None,
        value: Any,
        call: SubgraphCall,
    ) -> RunOutcome | None: ...


class RunPlayer:
    """Plays one recorded run."""

    def __init__(self, player: Player, run: Run, recorded: RecordedRun) -> None:
        self._player = player
        self._run = run
        self._recorded = recorded
        self._position = Position(player.file, recorded.number, recorded.namespace, recorded.thread_id)
        self._checks = RunChecks(run.program, recorded, self._position)
        self._index = 0
        """Index of the next recorded superstep."""
        self._current: RecordedStep | None = None
        """The superstep whose outcomes the run has received, until it is applied."""
        run.watch = EventEmitter(
            [("input_applied", self._input_applied), ("superstep_finished", self._superstep_finished)]
        )

    def play(self, value: Any) -> RunOutcome | None:
        """Play the run and return its outcome; None if the recorded run was abandoned. Raises ReplayMismatch."""
        for checkpoint in self._recorded.found:
            self._restore(checkpoint)
        if all(step.is_input for step in self._recorded.steps):
            self._request_stop()
        self._advance_clock(0)
        core = run_until_idle(self._run, value)
        answer: Any = None
        try:
            while True:
                effect = self._next_effect(core.send, answer)
                if isinstance(effect, RunOutcome):
                    self._checks.check_end(effect, self._current, self._index)
                    return effect
                if type(effect) is Stamp:
                    answer = self._stamp(effect.step)
                elif type(effect) is RunTasks:
                    if self._recorded.rest is None and self._index == len(self._recorded.steps):
                        return None
                    answer = self._outcomes(effect)
                else:
                    answer = perform_effect(self._run, effect)
        finally:
            core.close()

    def _next_effect(self, send: Callable[[Any], Effect], answer: Any) -> Effect | RunOutcome:
        try:
            return send(answer)
        except StopIteration as stopped:
            return stopped.value
        except Exception as error:
            rest = self._recorded.rest
            message = f"{type(error).__name__}: {error}"
            raise self._mismatch("the call is refused", rest.status if rest else "it began", message) from error

    # -- before the run

    def _restore(self, existing: Found) -> None:
        """Save a checkpoint that was on the thread."""
        branch, saver = self._run.line, self._player.saver
        if branch is None:
            return
        checkpoint, pending = restored_checkpoint(existing, self._player.serde)
        head = saver.load(branch.thread_id, namespace=branch.namespace, branch=branch.branch)
        if head is not None and head.id == existing.id:
            saver.save_results(branch, head.id, pending)
            return
        saver.commit(
            Commit(
                line=branch,
                expected=head.id if head is not None else None,
                parent_id=None,
                checkpoint=checkpoint,
                deltas=None,
                source=cast(Any, existing.source),
                run_id="found",
                created_at=self._player.clock.now(),
                metadata=existing.metadata,
                pending=pending,
                graph_version=existing.version,
            )
        )

    def _request_stop(self) -> None:
        """Ask the run to stop, if the recorded run was asked after this superstep."""
        rest, control = self._recorded.rest, self._run.control
        if rest is None or rest.stopped is None or control is None:
            return
        kind, reason = rest.stopped
        (control.request_cancel if kind == "cancel" else control.request_drain)(reason)

    def _advance_clock(self, next_index: int) -> None:
        """Let the time of a budget elapse, if that is what ended or redirected the recorded run."""
        budget, steps, rest = self._run.config.budget, self._recorded.steps, self._recorded.rest
        if budget is None or budget.max_seconds is None:
            return
        after = next_index + 1 if next_index < len(steps) and steps[next_index].is_input else next_index
        is_redirected = after < len(steps) and steps[after].out_of_budget
        is_over = after == len(steps) and rest is not None and (rest.error or [""])[0].endswith(BudgetExceeded.__name__)
        if is_redirected or is_over:
            spending = self._run.spending  # starts counting when it is first read
            missing = as_seconds(budget.max_seconds) - spending.seconds
            self._player.clock.advance(max(missing, 0.0))

    # -- supersteps

    def _stamp(self, step: int) -> tuple[str, datetime]:
        """Return the recorded id of a commit, and the time."""
        run = self._run
        return commit_name(run.run_id, run.namespace, step), self._player.clock.now()

    def _outcomes(self, effect: RunTasks) -> StepOutcome:
        """Return the answer of a driver: the outcomes of the tasks, recorded or computed."""
        step = self._expected_step(effect)
        position = self._position.at(step.number)
        recorded = self._checks.renames.tasks([plain_task_record(task) for task in step.tasks])
        self._checks.compare(position, "other tasks run", recorded, plain_tasks(effect.tasks))
        if self._index == len(self._recorded.steps) - 1:
            self._request_stop()
        outcomes = [
            self._outcome(_task_position(position, effect.tasks, index), task, record, effect.checkpoint)
            for index, (task, record) in enumerate(zip(effect.tasks, step.tasks, strict=True))
        ]
        self._run.spending.add(step.tokens, step.cost)
        self._advance_clock(self._index + 1)
        self._current, self._index = step, self._index + 1
        return outcomes, *self._stamp(step.number)

    def _expected_step(self, effect: RunTasks) -> RecordedStep:
        steps, number = self._recorded.steps, effect.checkpoint.step + 1
        nodes = ", ".join(repr(task.node) for task in effect.tasks)
        if self._index == len(steps):
            rest = self._recorded.rest
            end = f"the run came to rest, {rest.status if rest else 'abandoned'}"
            raise ReplayMismatch(self._position.at(number), "the run goes on", end, f"ran {nodes}")
        step = steps[self._index]
        if step.is_input:
            position = self._position.at(number)
            raise ReplayMismatch(position, "the run begins in another way", "input was applied", f"ran {nodes}")
        return step

    def _outcome(self, position: Position, task: Task, record: RecordedTask, checkpoint: Checkpoint) -> Outcome | None:
        node = self._run.program.nodes[task.node]
        scope = Scope(self._run, task, checkpoint)
        token = enter_scope(scope)
        try:
            if node.node is not None and node.node.is_subgraph and record.calls:
                return self._outcome_of_subgraph(position, scope, node, record)
            self._play_calls(scope, record)
            return self._outcome_of_node(position, scope, node, record)
        finally:
            leave_scope(token)

    def _outcome_of_node(
        self, position: Position, scope: Scope, node: NodeProgram, record: RecordedTask
    ) -> Outcome | None:
        """Return the recorded outcome of a node that is a function, with targets that are valid today."""
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
        plain: Any = recorded.writes
        writes: Any = cast(Any, plain) if isinstance(plain, dict) else [tuple(pair) for pair in plain]
        targets = [self._checks.renames.target(target) for target in recorded.targets]
        if recorded.goto:
            result = TaskResult(task, writes, targets, goto=True)
            if not is_handed_over(result):
                result.targets = self._checked_targets(position, node, targets)
            return result
        result = TaskResult(task, writes, node.successors)
        self._route(position, scope, node, result, targets)
        self._checks.check_targets(position, targets, result.targets)
        return result

    def _check_fields(self, position: Position, recorded: Completed) -> None:
        """Raise ReplayMismatch for a write to a field that the state does not have any more."""
        program = self._run.program
        for name, _ in plain_writes(recorded.writes) if program.graph.schema.closed else ():
            if name not in program.channels:
                hint = "  " + suggestion(name, program.channels, noun="Fields")
                write = f"a write to {name!r}"
                raise ReplayMismatch(position, "it wrote to an unknown field", write, "no such field", hint)

    def _checked_targets(self, position: Position, node: NodeProgram, targets: list[Any]) -> list[str | Send]:
        try:
            return checked_targets(self._run, node, targets)
        except UnknownTarget as error:
            ways = plain_targets(targets)
            raise ReplayMismatch(position, "it must not go where it went", ways, f"{error}") from error

    def _route(
        self, position: Position, scope: Scope, node: NodeProgram, result: TaskResult, recorded: list[Any]
    ) -> None:
        """Evaluate the conditional edges of a node on the state with its writes."""
        if not node.routes:
            return
        try:
            view = routing_view(scope, cast(Checkpoint, scope.checkpoint), result)
            choices = [_completed(evaluate_route(route, scope, view)) for route in node.routes]
            set_targets(self._run, node, result, choices)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            ways = plain_targets(recorded)
            raise ReplayMismatch(position, "its conditional edge raises", ways, message) from error

    # -- subgraphs

    def _play_calls(self, scope: Scope, record: RecordedTask) -> None:
        """Play the graphs that a node called in its function."""
        earlier = set[str]()
        for call in record.calls:
            graph = self._player.graphs.get(call.graph)
            if graph is None:
                self._player.unchecked[call.graph] = None
                continue
            caller, is_own = scope.run, record.id in call.namespace
            branch: BranchKey | None = None
            if call.saves and caller.line is not None:
                branch = caller.line._replace(namespace=call.namespace)
                if is_own and not caller.config.keeps_calls:
                    caller.open_namespaces.add(call.namespace)
            subgraph_call = begin_call(scope, graph.program, "call" if is_own else "thread")
            subgraph_call.namespace = call.namespace
            subgraph_call.is_retry = call.namespace in earlier and bool(call.steps) and call.steps[0].is_input
            earlier.add(call.namespace)
            self._player.replay_nested(call, graph, scope, branch, call.given, subgraph_call)

    def _outcome_of_subgraph(
        self, position: Position, scope: Scope, node: NodeProgram, record: RecordedTask
    ) -> Outcome | None:
        """Return the outcome of a node that is a graph: the graph is played once for each attempt."""
        outcome: Outcome | None = None
        for call in record.calls:
            attempt = Scope(scope.run, scope.task, scope.checkpoint)
            outcome = self._attempt(position, attempt, node, call)
        recorded = record.outcome
        timed_out = isinstance(recorded, Failed) and not isinstance(outcome, Failure)  # or cancelled from outside
        if outcome is None or recorded is None or timed_out:
            return self._outcome_of_node(position, scope, node, record)
        self._checks.check_outcome(position, recorded, recorded_outcome(outcome))
        return outcome

    def _attempt(self, position: Position, scope: Scope, node: NodeProgram, call: RecordedRun) -> Outcome | None:
        """Play an attempt at a node that is a graph; return None if the recorded attempt was abandoned."""
        run, task = scope.run, cast(Task, scope.task)
        program, described = run.program, node.node
        assert described is not None
        fields = frozenset(program.channels) if program.graph.schema.closed else None
        callee = _PlayedSubgraph(self._player, cast(CompiledGraph, described.action), scope, call)
        play, _ = subgraph_calls(cast(Any, callee), described.memory, fields, frozenset(program.merging))
        checkpoint = cast(Checkpoint, scope.checkpoint)
        try:
            try:
                answer: Any = play(begin(scope, node, task, checkpoint))
            except ChildCommand as signal:
                answer = answer_of_child(scope, node, task, signal)
            result = read_result(scope, node, task, answer)
            if not result.goto:
                self._route(position, scope, node, result, [])
            return result
        except ReplayMismatch:
            raise
        except _Abandoned:
            return None
        except BaseException as error:
            return settle(scope, node, task, error)

    # -- events of the core

    def _input_applied(self, event: Event) -> None:
        step = self._recorded.steps[self._index] if self._index < len(self._recorded.steps) else None
        if step is None or not step.is_input:
            raise self._mismatch("the run begins in another way", "no input was applied", "input was applied")
        self._index += 1
        self._checks.check_state(step, event.data, "the state after the input is another one")

    def _superstep_finished(self, event: Event) -> None:
        step, self._current = cast(RecordedStep, self._current), None
        self._checks.check_state(step, event.data, "the state is another one")

    def _mismatch(self, what: str, recorded: object, current: object) -> ReplayMismatch:
        steps = self._recorded.steps
        number = steps[self._index].number if self._index < len(steps) else None
        return ReplayMismatch(self._position.at(number), what, recorded, current)


class _Abandoned(BaseException):
    """The recorded call of a subgraph has no end."""


class _PlayedSubgraph:
    """A subgraph that is played instead of run."""

    def __init__(self, player: Player, graph: CompiledGraph, scope: Scope, call: RecordedRun) -> None:
        self._player = player
        self._graph = graph
        self._scope = scope
        self._call = call
        self.reported = graph.reported
        self.passes_state_on = graph.passes_state_on

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """Return or raise what `CompiledGraph.call_within` does."""
        scope, graph = self._scope, self._graph
        call = begin_call(scope, graph.program, memory)
        branch = call_line(scope, call.namespace, memory, keep=scope.run.config.keeps_calls)
        schema = graph.graph.input_schema
        value = common_fields(state, frozenset(schema.fields) if schema.closed else None)
        outcome = self._player.replay_nested(self._call, graph, scope, branch, value, call)
        if outcome is None:
            raise _Abandoned
        if outcome.error is not None:
            if isinstance(outcome.error, ParentCommand):
                raise ChildCommand(*outcome.error.commands, nodes=outcome.error.nodes)
            raise outcome.error
        if outcome.status in ("waiting", "paused"):
            raise Paused(*outcome.interrupts)
        return graph.program.output(outcome.checkpoint.values, plain=True), outcome.checkpoint.reported


def _task_position(position: Position, tasks: Sequence[Task], index: int) -> Position:
    """Return the position of a task: with its index, if its node has several."""
    nodes = [task.node for task in tasks]
    node = nodes[index]
    return position.at(position.superstep, node, nodes[:index].count(node) if nodes.count(node) > 1 else None)


def _completed(choice: Any) -> Any:
    """Return the choice of a conditional edge, run to its end if it is a coroutine."""
    if not inspect.isawaitable(choice):
        return choice

    async def wait() -> Any:
        return await choice

    return run_privately(wait)
