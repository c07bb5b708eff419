"""Recorded runs played again by today's graph, without running a node: a change that alters them is found and named.

The core is the one that runs use, `run_until_idle`; what is played by hand are the effects that a driver performs. Most
of a run is worked out again by today's code and compared with the recording; the rest is taken from the file.

*A call.* Worked out: the input is checked, split into writes and applied; answers are matched to the open questions;
what the thread holds is in a saver of its own. From the file: the input, the limits and breakpoints of the call, and
what the thread held that no recorded call had made.

*A node.* From the file: what it wrote, its interrupts, its error, and where it goes if its answer said so (a Command,
a Send), which must still be allowed. Worked out: where it goes otherwise; conditional edges are asked again, on the
state as it is today. Its journal and its attempts are in the file for those who read it; nothing here needs them.

*A subgraph that is a node.* Worked out: it is played in turn, and its result turned into writes, as often as it was
tried. A graph that a node calls in its function is played too, if it is among `graphs`; what the node made of its
result is taken from the file.

*A superstep.* Worked out: the state, by today's channels and reducers; the frontier, what is held, what joins wait for.

*The end.* Worked out: the status, breakpoints, the recursion limit, budgets. From the file: that somebody asked the run
to stop, and what was spent.

Nodes that were renamed, and say so with `aliases`, count as the same. Untracked values are in no file. States are not
migrated: recordings of a graph with another shape of state are made again. Reducers, conditional edges and channels
are called for real, so they must do nothing but compute. Ids are those of the recording, see `replay_file`; instants
are compared nowhere.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Any, Final, cast

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Commit,
    InMemorySaver,
    Interrupt,
    Task,
    TaskResult,
)
from statewright.clock import as_seconds
from statewright.errors import BudgetExceeded, UnknownTarget, suggestion
from statewright.events import Event
from statewright.fingerprint import fingerprint
from statewright.graph import Memory, NodeError, ParentCommand, Send
from statewright.runtime import CompiledGraph, RunControl
from statewright.runtime.concurrency.private_loop import run_privately
from statewright.runtime.config import OnUnfinished, Settings
from statewright.runtime.core.commit import saved_form
from statewright.runtime.core.effects import Effect, Failure, Outcome, Pause, RunOutcome, RunTasks
from statewright.runtime.core.events import EventEmitter
from statewright.runtime.core.program import HANDLER_SUFFIX, NodeProgram, Program, is_handed_over
from statewright.runtime.core.run import Run
from statewright.runtime.core.saver_calls import perform_effect
from statewright.runtime.core.subgraph import Pairs, SubgraphCall, call_line, shared, subgraph_calls
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.execute import (
    answer_of_child,
    ask,
    begin,
    checked_targets,
    routing_view,
    settle,
    take_choices,
    written,
)
from statewright.runtime.tasks.interrupt import ChildCommand, Paused
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.serde.serde import Serde
from statewright.testing.clock import FakeClock
from statewright.testing.replay.file import (
    Asked,
    Failed,
    ForParent,
    Found,
    Landed,
    Marks,
    RecordedRun,
    RecordedState,
    RecordedStep,
    RecordedTask,
    StateReader,
    commit_name,
    made_checkpoint,
    plain_held,
    plain_joins,
    plain_tasks,
    read_recording,
    replay_serde,
    run_name,
    told_error,
)

SHORT: Final = 80
"""Values that take no more signs than this are shown on one line."""
SHOWN_LINES: Final = 40
"""How many lines of a difference are shown."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One call of a recording that was played again, and came out the same."""

    value: Any
    """The state that the output schema shows."""
    status: str
    """`completed`, `waiting`, `paused`, `failed`, `cancelled`; `abandoned` if it was not read to its end."""
    interrupts: tuple[Interrupt, ...]
    error: BaseException | None
    """A class that is neither Python's nor Statewright's is a StoredError."""
    steps: tuple[tuple[str, ...], ...]
    """The nodes of each superstep."""
    unchecked: tuple[str, ...]
    """The graphs that nodes have called and that were not given as `graphs`: of these nothing was checked."""


def replay(
    file: str | os.PathLike[str],
    app: CompiledGraph,
    *,
    graphs: Iterable[CompiledGraph] = (),
    context: Any = None,
    serde: Serde | None = None,
) -> list[Replayed]:
    """The calls of a recording, played again by the graph of today without running a node.

    `graphs` are those that nodes call in their functions, found by their names; those that are nodes are known.
    `context` is for conditional edges that ask for it. `serde` is one like that of the recording. Raises
    ReplayMismatch where a run takes another way than it did; NewerFormat and SerdeError for files that cannot be
    read.
    """
    recording = read_recording(file, app, serde=serde)
    player = _Player(str(Path(file)), app, graphs, context, replay_serde(app, serde))
    return [player.call(recorded) for recorded in recording.calls]


class ReplayMismatch(AssertionError):
    """A recorded run would be another one today."""

    def __init__(self, where: Where, what: str, recorded: object, came: object, hint: str = "") -> None:
        self.call = where.call
        """Which call of the recording, from 1."""
        self.namespace = where.namespace
        """Empty for the call itself; the path of tasks that leads to a subgraph."""
        self.superstep = where.superstep
        self.task = where.task
        """The node of the task, if it is one task that differs."""
        self.what = what
        self.recorded = recorded
        self.came = came
        super().__init__(f"{where}: {what}.\n{_compared(recorded, came)}{f'{chr(10)}{hint}' if hint else ''}")


@dataclass(slots=True)
class Where:
    """A place in a recording."""

    file: str
    call: int
    namespace: str
    thread_id: str | None
    superstep: int | None = None
    task: str | None = None
    place: int | None = None
    """Which of several tasks of one node."""

    def __str__(self) -> str:
        parts = [f"{self.file}, call {self.call}"]
        if self.thread_id is not None:
            parts[0] += f" (thread {self.thread_id!r})"
        if self.namespace:
            parts.append("subgraph " + repr("|".join(one.partition(":")[0] for one in self.namespace.split("|"))))
        if self.superstep is not None:
            parts.append(f"superstep {self.superstep}")
        if self.task is not None:
            parts.append(f"task {self.task!r}" + (f" (number {self.place + 1})" if self.place is not None else ""))
        return ", ".join(parts)

    def at(self, superstep: int | None, task: str | None = None, place: int | None = None) -> Where:
        return Where(self.file, self.call, self.namespace, self.thread_id, superstep, task, place)


def _compared(recorded: object, came: object) -> str:
    """Both, one under the other; line by line where they are long."""
    one, other = _shown(recorded), _shown(came)
    is_text = isinstance(recorded, str) or isinstance(came, str)
    if is_text or (len(one) <= SHORT and len(other) <= SHORT):
        return f"  recorded: {one}\n  came:     {other}"
    before, after = pformat(recorded, width=100).splitlines(), pformat(came, width=100).splitlines()
    lines = list(difflib.unified_diff(before, after, "recorded", "came", n=2, lineterm=""))
    more = [f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return "\n".join(f"  {line}" for line in (*lines[:SHOWN_LINES], *more))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


# -- playing


class _ReplayedRun(Run):
    """A run whose commits have the ids of the recording."""

    __slots__ = ()

    def commit_id(self, step: int) -> str:
        if self.saver is None:
            return super().commit_id(step)
        return commit_name(self.run_id, self.namespace, step)


class _Player:
    """Plays the calls of a recording, one after another, on threads of its own."""

    def __init__(
        self, file: str, app: CompiledGraph, graphs: Iterable[CompiledGraph], context: Any, serde: Serde
    ) -> None:
        self.file = file
        self.serde = serde
        self.saver = InMemorySaver()
        self.clock = FakeClock()
        self._app = app
        self._context = context
        inner = {graph.graph.name: graph for _, graph in subgraphs_of(app.graph, recurse=True)}
        self.graphs: Mapping[str, CompiledGraph] = {**inner, **{graph.graph.name: graph for graph in graphs}}
        self.unchecked: dict[str, None] = {}

    def call(self, recorded: RecordedRun) -> Replayed:
        self.unchecked = {}
        program = self._app.program
        run = _ReplayedRun(
            program,
            _settings(recorded),
            saver=self.saver if recorded.saves else None,
            line=_line(recorded, recorded.namespace) if recorded.saves else None,
            context=self._context,
            store=self._app.store,
            run_id=run_name(recorded.number),
            on_unfinished=cast("OnUnfinished | None", recorded.on_unfinished),
            saves_at_rest=recorded.saves_at_rest,
            keeps_calls=recorded.keeps_calls,
            control=RunControl(),
            budget=recorded.budget,
            **self._common(recorded, program),
        )
        if recorded.saves and recorded.head is None and recorded.thread_id is not None:
            self.saver.delete_thread(recorded.thread_id)  # somebody did so between two calls
        line = _Line(self, run, recorded)
        rest = line.play(recorded.given)
        steps = tuple(tuple(task.node for task in step.tasks) for step in recorded.steps if not step.is_input)
        unchecked = tuple(self.unchecked)
        if rest is None:
            return Replayed(None, "abandoned", (), None, steps, unchecked)
        value = program.output(rest.checkpoint.values)
        return Replayed(value, rest.status, rest.interrupts, rest.error, steps, unchecked)

    def nested(
        self,
        recorded: RecordedRun,
        graph: CompiledGraph,
        scope: Scope,
        namespace: str,
        line: BranchKey | None,
        given: Any,
        call: SubgraphCall | None = None,
    ) -> tuple[Run, RunOutcome | None]:
        """Play the call of a graph by a task; the run, and how it came to rest."""
        caller, task = scope.run, cast(Task, scope.task)
        run = _ReplayedRun(
            graph.program,
            _settings(recorded),
            saver=caller.saver if line is not None else None,
            line=line,
            context=caller.context,
            store=graph.store or caller.store,
            answers=caller.answers,
            run_id=caller.run_id,
            namespace=namespace,
            nested=True,
            live=caller.live,
            saves_at_rest=recorded.saves_at_rest,
            keeps_calls=recorded.keeps_calls,
            control=caller.control,
            budget=caller.budget,
            spent=caller.spending if caller.budget is not None else caller.spent,
            metadata={"parent_task": task.id},
            **self._common(recorded, graph.program),
        )
        run.given_state, run.call = True, call
        return run, _Line(self, run, recorded).play(given)

    def _common(self, recorded: RecordedRun, program: Program) -> dict[str, Any]:
        renamed = _Renamed(program)
        return {
            "clock": self.clock,
            "breaks_before": frozenset(map(renamed.node, recorded.breaks_before)),
            "breaks_after": frozenset(map(renamed.node, recorded.breaks_after)),
        }


def _settings(recorded: RecordedRun) -> Settings:
    settings = Settings()
    settings.thread_id, settings.branch = recorded.thread_id, recorded.branch
    settings.checkpoint_id, settings.recursion_limit = recorded.checkpoint_id, recorded.recursion_limit
    return settings


def _line(recorded: RecordedRun, namespace: str) -> BranchKey:
    return BranchKey(recorded.thread_id or "", namespace, recorded.branch)


class _Renamed:
    """What the names in a recording are today."""

    def __init__(self, program: Program) -> None:
        former = {alias: node.name for node in program.graph.nodes.values() for alias in node.aliases}
        handlers = {alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in former.items()}
        self._names: Mapping[str, str] = {**former, **handlers}

    def node(self, name: str) -> str:
        return self._names.get(name, name)

    def tasks(self, tasks: Sequence[list[Any]]) -> list[list[Any]]:
        return [[self.node(name), *rest] for name, *rest in tasks]

    def joins(self, joins: Sequence[list[Any]]) -> list[list[Any]]:
        return [
            [[*map(self.node, starts)], self.node(end), sorted(map(self.node, arrived))]
            for starts, end, arrived in joins
        ]

    def target(self, target: Any) -> Any:
        if isinstance(target, Send):
            return Send(self.node(target.node), target.arg, gather=target.gather, timeout=target.timeout)
        return self.node(target)


class _Line:
    """One recorded run, played from its input to rest."""

    def __init__(self, player: _Player, run: Run, recorded: RecordedRun) -> None:
        self._player = player
        self._run = run
        self._recorded = recorded
        self._renamed = _Renamed(run.program)
        self._reader = StateReader()
        self._marks = Marks()
        self._place = 0
        """Which of the recorded supersteps comes next."""
        self._present: RecordedStep | None = None
        """The one whose outcomes the run has got."""
        self._where = Where(player.file, recorded.number, recorded.namespace, recorded.thread_id)
        run.watch = EventEmitter(
            [("input_applied", self._input_applied), ("superstep_finished", self._superstep_finished)]
        )

    def play(self, given: Any) -> RunOutcome | None:
        """How the run comes to rest; None if the recorded one was abandoned. Raises ReplayMismatch."""
        for found in self._recorded.found:
            self._put_back(found)
        if not any(not step.is_input for step in self._recorded.steps):
            self._hear_requests()
        self._make_time_pass(0)
        core = run_until_idle(self._run, given)
        answer: Any = None
        try:
            while True:
                effect = self._next_effect(core.send, answer)
                if isinstance(effect, RunOutcome):
                    self._check_rest(effect)
                    return effect
                if type(effect) is RunTasks:
                    if self._recorded.rest is None and self._place == len(self._recorded.steps):
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
            told = f"{type(error).__name__}: {error}"
            raise self._mismatch("the call is refused", rest.status if rest else "it began", told) from error

    # -- before it begins

    def _put_back(self, found: Found) -> None:
        """Save what the run had met."""
        line, saver = self._run.line, self._player.saver
        if line is None:
            return
        checkpoint, pending = made_checkpoint(found, self._player.serde)
        head = saver.load(line.thread_id, namespace=line.namespace, branch=line.branch)
        if head is not None and head.id == found.id:
            saver.save_results(line, head.id, pending)
            return
        saver.commit(
            Commit(
                line=line,
                expected=head.id if head is not None else None,
                parent_id=None,
                checkpoint=checkpoint,
                deltas=None,
                source=cast(Any, found.source),
                run_id="found",
                created_at=self._player.clock.now(),
                metadata=found.metadata,
                pending=pending,
                graph_version=found.version,
            )
        )

    def _hear_requests(self) -> None:
        """Ask the run to stop, if somebody did so after this superstep."""
        rest, control = self._recorded.rest, self._run.control
        if rest is None or rest.stopped is None or control is None:
            return
        how, reason = rest.stopped
        (control.request_cancel if how == "cancel" else control.request_drain)(reason)

    def _make_time_pass(self, next_place: int) -> None:
        """Let the time of a budget be over, where that is what ended the recorded run or led it elsewhere."""
        budget, steps, rest = self._run.budget, self._recorded.steps, self._recorded.rest
        if budget is None or budget.max_seconds is None:
            return
        after = next_place + 1 if next_place < len(steps) and steps[next_place].is_input else next_place
        elsewhere = after < len(steps) and steps[after].out_of_budget
        over = after == len(steps) and rest is not None and (rest.error or [""])[0].endswith(BudgetExceeded.__name__)
        if elsewhere or over:
            spending = self._run.spending  # begins to count now, if it has not
            missing = as_seconds(budget.max_seconds) - spending.seconds
            self._player.clock.advance(max(missing, 0.0))

    # -- supersteps

    def _outcomes(self, effect: RunTasks) -> tuple[list[Outcome | None], str]:
        """What a driver would answer: the outcomes of the tasks, as recorded or worked out anew."""
        step = self._expected(effect)
        where = self._where.at(step.number)
        recorded = self._renamed.tasks([_named(task) for task in step.tasks])
        self._compare(where, "other tasks run", recorded, plain_tasks(effect.tasks))
        if self._place == len(self._recorded.steps) - 1:
            self._hear_requests()
        outcomes = [
            self._outcome(_at(where, effect.tasks, place), task, one, effect.checkpoint)
            for place, (task, one) in enumerate(zip(effect.tasks, step.tasks, strict=True))
        ]
        self._run.spending.add(step.tokens, step.cost)
        self._make_time_pass(self._place + 1)
        self._present, self._place = step, self._place + 1
        return outcomes, self._run.commit_id(step.number)

    def _expected(self, effect: RunTasks) -> RecordedStep:
        """The recorded superstep that must come now."""
        steps, number = self._recorded.steps, effect.checkpoint.step + 1
        if self._place == len(steps):
            rest = self._recorded.rest
            ended = f"the run came to rest, {rest.status if rest else 'abandoned'}"
            came = f"ran {_node_list(effect.tasks)}"
            raise ReplayMismatch(self._where.at(number), "the run goes on", ended, came)
        step = steps[self._place]
        if step.is_input:
            came = f"ran {_node_list(effect.tasks)}"
            raise ReplayMismatch(self._where.at(number), "the run begins in another way", "input was applied", came)
        return step

    def _outcome(self, where: Where, task: Task, one: RecordedTask, checkpoint: Checkpoint) -> Outcome | None:
        node = self._run.program.nodes[task.node]
        scope = Scope(self._run, task, checkpoint)
        token = enter_scope(scope)
        try:
            if node.node is not None and node.node.is_subgraph and one.calls:
                return self._of_subgraph(where, scope, node, one)
            self._play_calls(scope, one)
            return self._of_node(where, scope, node, one)
        finally:
            leave_scope(token)

    def _of_node(self, where: Where, scope: Scope, node: NodeProgram, one: RecordedTask) -> Outcome | None:
        """The outcome of a node that is a function: what it brought is taken from the file."""
        task, recorded = cast(Task, scope.task), one.outcome
        if recorded is None:
            return None
        if isinstance(recorded, Asked):
            return Pause(task, tuple(recorded.interrupts))
        if isinstance(recorded, Failed):
            return Failure(task, recorded.error)
        if isinstance(recorded, ForParent):
            return Failure(task, ParentCommand(recorded.command, *recorded.more))
        self._check_fields(where, recorded)
        plain: Any = recorded.writes
        writes: Any = cast(Any, plain) if isinstance(plain, dict) else [tuple(pair) for pair in plain]
        targets = [self._renamed.target(target) for target in recorded.targets]
        if recorded.goto:
            result = TaskResult(task, writes, targets, goto=True)
            if not is_handed_over(result):
                result.targets = self._allowed(where, node, targets)
            return result
        result = TaskResult(task, writes, node.successors)
        self._route(where, scope, node, result, targets)
        self._compare(where, "it leads elsewhere", _ways(targets), _ways(result.targets))
        return result

    def _check_fields(self, where: Where, recorded: Landed) -> None:
        """Raise ReplayMismatch for a write to a field that the state does not have any more."""
        program = self._run.program
        for name, _ in _pairs(recorded.writes) if program.graph.schema.closed else ():
            if name not in program.channels:
                hint = "  " + suggestion(name, program.channels, noun="Fields")
                raise ReplayMismatch(where, "it wrote what is no field", f"a write to {name!r}", "no such field", hint)

    def _allowed(self, where: Where, node: NodeProgram, targets: list[Any]) -> list[str | Send]:
        try:
            return checked_targets(self._run, node, targets)
        except UnknownTarget as error:
            raise ReplayMismatch(where, "it must not go where it went", _ways(targets), f"{error}") from error

    def _route(self, where: Where, scope: Scope, node: NodeProgram, result: TaskResult, recorded: list[Any]) -> None:
        """Ask the conditional edges of a node, on the state with what it wrote."""
        if not node.routes:
            return
        try:
            view = routing_view(scope, cast(Checkpoint, scope.checkpoint), result)
            choices = [_awaited(ask(route, scope, view)) for route in node.routes]
            take_choices(self._run, node, result, choices)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise ReplayMismatch(where, "its conditional edge raises", _ways(recorded), told) from error

    # -- subgraphs

    def _play_calls(self, scope: Scope, one: RecordedTask) -> None:
        """Play the graphs that a node called in its function."""
        earlier = set[str]()
        for call in one.calls:
            graph = self._player.graphs.get(call.graph)
            if graph is None:
                self._player.unchecked[call.graph] = None
                continue
            caller = scope.run
            saves = call.saves and caller.line is not None
            line = caller.line._replace(namespace=call.namespace) if saves and caller.line is not None else None
            if line is not None and one.id in call.namespace and not caller.keeps_calls:
                caller.open_namespaces.add(call.namespace)
            made = SubgraphCall(scope, graph.program, "call" if one.id in call.namespace else "thread")
            made.is_retry = call.namespace in earlier and bool(call.steps) and call.steps[0].is_input
            earlier.add(call.namespace)
            self._player.nested(call, graph, scope, call.namespace, line, call.given, made)

    def _of_subgraph(self, where: Where, scope: Scope, node: NodeProgram, one: RecordedTask) -> Outcome | None:
        """The outcome of a node that is a graph: worked out by playing that, as often as it was tried."""
        outcome: Outcome | None = None
        for call in one.calls:
            again = Scope(scope.run, scope.task, scope.checkpoint)
            outcome = self._tried(where, again, node, call)
        recorded = one.outcome
        given_up = isinstance(recorded, Failed) and not isinstance(outcome, Failure)  # from outside: a timeout, say
        if outcome is None or recorded is None or given_up:
            return self._of_node(where, scope, node, one)
        self._compare_outcomes(where, recorded, _as_recorded(outcome))
        return outcome

    def _tried(self, where: Where, scope: Scope, node: NodeProgram, call: RecordedRun) -> Outcome | None:
        """One try at a node that is a graph; None if the recorded one was abandoned."""
        run, task = scope.run, cast(Task, scope.task)
        program, described = run.program, node.node
        assert described is not None
        known = frozenset(program.channels) if program.graph.schema.closed else None
        callee = _Callee(self._player, cast(CompiledGraph, described.action), scope, call)
        play, _ = subgraph_calls(cast(Any, callee), described.memory, known, frozenset(program.merging))
        checkpoint = cast(Checkpoint, scope.checkpoint)
        try:
            try:
                answer: Any = play(begin(scope, node, task, checkpoint))
            except ChildCommand as signal:
                answer = answer_of_child(scope, node, task, signal)
            result = written(scope, node, task, answer)
            if not result.goto:
                self._route(where, scope, node, result, [])
            return result
        except ReplayMismatch:
            raise
        except _Abandoned:
            return None
        except BaseException as error:
            return settle(scope, node, task, error)

    def _compare_outcomes(self, where: Where, recorded: Any, came: Any) -> None:
        """Raise ReplayMismatch unless a node that is a graph brings what it brought."""
        if not (isinstance(recorded, Landed) and isinstance(came, Landed)):
            self._compare(where, "it ends otherwise", _told(recorded), _told(came))
            return
        self._compare(where, "it writes something else", _pairs(recorded.writes), _pairs(came.writes))
        targets = [self._renamed.target(target) for target in recorded.targets]
        self._compare(where, "it leads elsewhere", _ways(targets), _ways(came.targets))

    # -- after supersteps

    def _input_applied(self, event: Event) -> None:
        step = self._recorded.steps[self._place] if self._place < len(self._recorded.steps) else None
        if step is None or not step.is_input:
            raise self._mismatch("the run begins in another way", "no input was applied", "input was applied")
        self._place += 1
        self._check_state(step, event.data, "the state after the input is another one")

    def _superstep_finished(self, event: Event) -> None:
        step, self._present = cast(RecordedStep, self._present), None
        self._check_state(step, event.data, "the state is another one")

    def _check_state(self, step: RecordedStep, checkpoint: Checkpoint, what: str) -> None:
        """Compare where the run stands with where it stood."""
        where, after, came = self._where.at(step.number), step.after, saved_form(self._run.program, checkpoint)
        if after is None:
            rest = self._recorded.rest
            told = ": ".join(rest.error) if rest and rest.error else f"the run came to rest, {rest and rest.status}"
            raise ReplayMismatch(where, "the superstep is completed", told, "its results were applied")
        self._reader.go_on(after.changes)
        if self._marks.of(came.values) != after.fingerprint:
            self._compare_fields(where, what, came.values)
        self._check_control(where, after, came)

    def _compare_fields(self, where: Where, what: str, came: Mapping[str, Any]) -> None:
        """Raise ReplayMismatch with the fields that differ."""
        recorded = self._reader.values
        names = [*recorded, *(name for name in came if name not in recorded)]
        other = [name for name in names if not _same(recorded, came, name)]
        one = {name: recorded[name] for name in other if name in recorded}
        two = {name: came[name] for name in other if name in came}
        if other:
            raise ReplayMismatch(where, f"{what}, in {', '.join(map(repr, other))}", one, two)

    def _check_control(self, where: Where, after: RecordedState, came: Checkpoint) -> None:
        renamed = self._renamed
        self._compare(
            where, "what comes next is something else", renamed.tasks(after.frontier), plain_tasks(came.frontier)
        )
        held = plain_held(came.held)
        self._compare(where, "what is held is something else", renamed.tasks(after.held), held)
        joins = plain_joins(self._run.program, came.joins)
        self._compare(where, "join edges wait for others", sorted(renamed.joins(after.joins)), sorted(joins))

    def _check_rest(self, rest: RunOutcome) -> None:
        """Compare how the run came to rest."""
        steps, recorded, present = self._recorded.steps, self._recorded.rest, self._present
        status = f"the run came to rest, {rest.status}" + (f": {rest.error}" if rest.error is not None else "")
        if present is not None and present.after is not None:
            where = self._where.at(present.number)
            raise ReplayMismatch(where, "the superstep is not completed", "its results were applied", status)
        if self._place < len(steps):
            step = steps[self._place]
            nodes = ", ".join(repr(task.node) for task in step.tasks)
            raise ReplayMismatch(self._where.at(step.number), "the run does not go on", f"ran {nodes}", status)
        if recorded is None:
            return
        error = told_error(rest.error) if rest.error is not None else None
        if error is not None and recorded.error is not None and isinstance(rest.error, BudgetExceeded):
            error = [error[0], recorded.error[1]]  # how many seconds it took is another number each time
        one = _rest_parts(recorded.status, recorded.interrupts, self._node(recorded.node), recorded.error)
        two = _rest_parts(rest.status, [question.id for question in rest.interrupts], rest.node, error)
        self._compare(self._where, "the run comes to rest otherwise", one, two)

    def _node(self, name: str | None) -> str | None:
        return None if name is None else self._renamed.node(name)

    # -- comparing

    def _compare(self, where: Where, what: str, recorded: Any, came: Any) -> None:
        if recorded != came and _mark(recorded) != _mark(came):
            raise ReplayMismatch(where, what, recorded, came)

    def _mismatch(self, what: str, recorded: object, came: object) -> ReplayMismatch:
        steps = self._recorded.steps
        number = steps[self._place].number if self._place < len(steps) else None
        return ReplayMismatch(self._where.at(number), what, recorded, came)


class _Abandoned(BaseException):
    """The recorded call of a subgraph did not come to rest."""


class _Callee:
    """A subgraph that is played instead of run."""

    def __init__(self, player: _Player, graph: CompiledGraph, scope: Scope, call: RecordedRun) -> None:
        self._player = player
        self._graph = graph
        self._scope = scope
        self._call = call

    @property
    def reported(self) -> frozenset[str]:
        return self._graph.reported

    @property
    def passes_state_on(self) -> bool:
        return self._graph.passes_state_on

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]:
        """What `CompiledGraph.call_within` gives, or raises."""
        scope, graph = self._scope, self._graph
        namespace = SubgraphCall(scope, graph.program, memory).namespace
        line = call_line(scope, namespace, memory, keep=scope.run.keeps_calls)
        schema = graph.graph.input_schema
        given = shared(state, frozenset(schema.fields) if schema.closed else None)
        _, rest = self._player.nested(self._call, graph, scope, namespace, line, given)
        if rest is None:
            raise _Abandoned
        if rest.error is not None:
            if isinstance(rest.error, ParentCommand):
                raise ChildCommand(*rest.error.commands, nodes=rest.error.nodes)
            raise rest.error
        if rest.status in ("waiting", "paused"):
            raise Paused(*rest.interrupts)
        return graph.program.output(rest.checkpoint.values, plain=True), rest.checkpoint.reported


# -- in a form that can be compared and shown


def _named(task: RecordedTask) -> list[Any]:
    return [task.node] if task.arg is NO_ARG else [task.node, task.arg]


def _node_list(tasks: Iterable[Task]) -> str:
    return ", ".join(repr(task.node) for task in tasks)


def _at(where: Where, tasks: Sequence[Task], place: int) -> Where:
    """The place of a task: with its number, if its node has several."""
    node = tasks[place].node
    several = sum(1 for task in tasks if task.node == node) > 1
    number = sum(1 for task in tasks[:place] if task.node == node) if several else None
    return where.at(where.superstep, node, number)


def _ways(targets: Iterable[Any]) -> list[Any]:
    """Where a task goes: nodes by name, for each is due once; then its Sends in their order."""
    listed = list(targets)
    return [*sorted({one for one in listed if type(one) is str}), *(one for one in listed if type(one) is not str)]


def _pairs(writes: Any) -> list[list[Any]]:
    pairs: Any = cast("dict[str, Any]", writes).items() if isinstance(writes, dict) else writes
    return [list(pair) for pair in pairs]


def _as_recorded(outcome: Outcome) -> Landed | Asked | Failed | ForParent:
    if isinstance(outcome, TaskResult):
        return Landed(outcome.writes, list(outcome.targets), outcome.goto)
    if isinstance(outcome, Pause):
        return Asked(list(outcome.interrupts))
    error = outcome.error
    if isinstance(error, ParentCommand):
        return ForParent(error.commands[0], list(error.commands[1:]))
    return Failed(error)


def _told(recorded: Any) -> Any:
    """An outcome in words."""
    if isinstance(recorded, Asked):
        return ["interrupts", *((one.kind, one.id, one.value) for one in recorded.interrupts)]
    if isinstance(recorded, Failed):
        return ["raised", *told_error(recorded.error)]
    if isinstance(recorded, ForParent):
        commands = [recorded.command, *recorded.more]
        return ["Command for the parent", *([one.update, list(one.targets)] for one in commands)]
    return ["answered", dict(_pairs(recorded.writes))] if isinstance(recorded, Landed) else ["stopped"]


def _rest_parts(status: str, interrupts: list[str], node: str | None, error: list[str] | None) -> dict[str, Any]:
    known = {"status": status, "interrupts": interrupts, "node": node, "error": error and ": ".join(error)}
    return {name: value for name, value in known.items() if value}


def _same(recorded: Mapping[str, Any], came: Mapping[str, Any], name: str) -> bool:
    if name not in recorded or name not in came:
        return False
    return _mark(recorded[name]) == _mark(came[name])


def _mark(value: Any) -> str:
    """A fingerprint that takes exceptions by what they say: where they came from is no part of them."""
    return fingerprint(_simple(value))


def _simple(value: Any) -> Any:
    if isinstance(value, NodeError):
        return ["NodeError", value.node, _simple(value.error), value.input]
    if isinstance(value, BaseException):
        return told_error(value)
    if isinstance(value, Send):
        return ["Send", value.node, _simple(value.arg), value.gather, _simple(value.timeout)]
    if isinstance(value, list | tuple):
        return [_simple(one) for one in cast("Sequence[Any]", value)]
    return value


def _awaited(choice: Any) -> Any:
    """What a conditional edge answered, waited for if it is a coroutine."""
    if not inspect.isawaitable(choice):
        return choice

    async def wait() -> Any:
        return await choice

    return run_privately(wait)
