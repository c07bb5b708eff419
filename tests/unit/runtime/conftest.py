"""Fixtures of the tests of the runtime: programs, runs and scopes, and a driver of the core for tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Annotated, Any, TypedDict

import pytest

from statewright import InMemorySaver, StateGraph, append
from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    DeferredTask,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
)
from statewright.events import EventKind
from statewright.runtime.config import Settings
from statewright.runtime.core.effects import Effect, RunTasks, Stamp
from statewright.runtime.core.loop import run_supersteps
from statewright.runtime.core.program import Program
from statewright.runtime.drivers.saver_calls import perform_effect
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.outcome import Outcome, RunOutcome
from statewright.runtime.invocation.run import Run, SubgraphCall
from statewright.runtime.invocation.run_config import RunConfig, RunPorts
from statewright.runtime.lifecycle.subgraph_call import begin_call
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.testing import FakeClock


@pytest.fixture(autouse=True)
def outside_a_run() -> Iterator[None]:
    """Leave the scope after each test, because attempts enter theirs in the context that all tests share."""
    token = enter_scope(None)
    yield
    leave_scope(token)


Answer = Callable[[Task], Outcome | None]
"""Returns the outcome of a task; None if it was stopped."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: Any
    y: Any


def no_op(state: Any) -> None:
    """Do nothing. Tests send the results of these nodes to the core."""


class CoreDriver:
    """Drives a core: performs effects of storage, and answers supersteps with the outcomes of a test."""

    def __init__(self, run: Run, core: Generator[Effect, Any, Any], commits: Iterator[int]) -> None:
        self.run = run
        self.commits = commits
        """The numbers of the commits of a test."""
        self.core = core
        self.effects: list[Effect] = []
        """Every effect of the core, except stamps."""
        self.steps: list[tuple[Task, ...]] = []
        """The tasks of each superstep."""

    def finish(self, answer: Answer | None = None, recorded: list[Any] | None = None) -> Any:
        """Drive the core to its end, and return its result. By default tasks log their names and follow their edges.

        The values sent to the core are added to `recorded`.
        """
        answers = answer or self.along_edges
        sent: Any = None
        while True:
            try:
                effect = self.core.send(sent)
            except StopIteration as stopped:
                return stopped.value
            if not isinstance(effect, Stamp):
                self.effects.append(effect)
            if isinstance(effect, RunTasks):
                self.steps.append(effect.tasks)
                stamp = f"commit-{next(self.commits)}", self.run.ports.clock.now()
                sent = [answers(task) for task in effect.tasks], *stamp
            else:
                sent = perform_effect(self.run, effect)
            if recorded is not None:
                recorded.append(sent)

    def along_edges(self, task: Task) -> TaskResult:
        """Return the result of a node that logs its name and follows its plain edges."""
        return TaskResult(task, {"log": [task.node]}, self.run.program.nodes[task.node].successors)

    @property
    def nodes(self) -> list[list[str]]:
        """The nodes of each superstep."""
        return [[task.node for task in tasks] for tasks in self.steps]

    def effects_of(self, kind: type) -> list[Any]:
        """Return the effects of one kind, in order."""
        return [effect for effect in self.effects if type(effect) is kind]


class Maker:
    """Builds arguments for the modules under test."""

    state = State

    def __init__(self) -> None:
        self.commits = itertools.count(1)

    def graph(self, *names: str, schema: Any = State, **options: Any) -> StateGraph:
        """Return a builder with nodes that do nothing; `options` are options of nodes by name."""
        graph = StateGraph(schema)
        for name in names:
            graph.add_node(name, no_op, **options.get(name, {}))
        return graph

    def program(self, graph: StateGraph, **options: Any) -> Program:
        """Return the program of a builder."""
        return Program(graph.freeze(), **options)

    def task(self, node: str, arg: Any = NO_ARG, origin: str = "before", position: int = 0) -> Task:
        return Task(node, arg, origin, position)

    def tasks(self, *nodes: str, origin: str = "before") -> tuple[Task, ...]:
        """Return tasks that one commit made due."""
        return tuple(Task(node, NO_ARG, origin, position) for position, node in enumerate(nodes))

    def result(
        self,
        node: str | Task,
        writes: dict[str, Any] | list[tuple[str, Any]] | None = None,
        targets: Sequence[Any] = (),
        *,
        goto: bool = False,
    ) -> TaskResult:
        task = node if isinstance(node, Task) else self.task(node)
        return TaskResult(task, {} if writes is None else writes, targets, goto=goto)

    def checkpoint(
        self,
        values: dict[str, Any] | None = None,
        frontier: Sequence[Task] = (),
        held: Sequence[DeferredTask] = (),
        *,
        checkpoint_id: str = "before",
        step: int = 3,
        **parts: Any,
    ) -> Checkpoint:
        return Checkpoint(checkpoint_id, step, {} if values is None else values, tuple(frontier), tuple(held), **parts)

    def saved(self, checkpoint: Checkpoint, pending: Pending | None = None, **parts: Any) -> SavedCheckpoint:
        """Return a checkpoint as a saver returns it."""
        defaults: dict[str, Any] = {
            "branch_key": BranchKey("thread"),
            "parent_id": None,
            "source": "loop",
            "run_id": "run",
            "created_at": FakeClock().now(),
            "metadata": {},
        }
        return SavedCheckpoint(checkpoint=checkpoint, pending=pending or Pending(), **{**defaults, **parts})

    def run(
        self,
        program: Program,
        *,
        saver: InMemorySaver | None = None,
        watched: Sequence[EventKind] = (),
        seen: list[Any] | None = None,
        recursion_limit: int = 1000,
        checkpoint_id: str | None = None,
        branch: str = "main",
        clock: Any = None,
        **options: Any,
    ) -> Run:
        """Return a run, on the thread `thread` if it has a saver. Events of `watched` kinds are added to `seen`."""
        settings = Settings()
        settings.recursion_limit, settings.checkpoint_id, settings.branch = recursion_limit, checkpoint_id, branch
        settings.thread_id = "thread" if saver is not None else None
        events: list[Any] = [] if seen is None else seen
        call = options.get("call")
        namespace = call.namespace if call is not None else options.get("namespace", "")
        durability: Any = "exit" if options.pop("saves_on_exit", False) else "sync"
        config = {name: options.pop(name) for name in RunConfig._fields if name in options}
        return Run(
            program,
            settings,
            RunConfig(durability=durability, **config),
            RunPorts(clock=clock or FakeClock()),
            saver=saver,
            branch_key=BranchKey("thread", namespace, branch) if saver is not None else None,
            emitter=EventEmitter([(kind, events.append) for kind in watched]) if watched else None,
            **{"run_id": "run", **options},
        )

    def subgraph_call(self, program: Program, namespace: str = "outer:1", origin: str = "before") -> SubgraphCall:
        """Return the call of a subgraph in a namespace, by a task that the commit `origin` made due."""
        call = begin_call(Scope(self.run(program), self.task("outer", origin=origin)), program)
        call.namespace = namespace
        return call

    def scope(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> Scope:
        return Scope(run, task, checkpoint)

    def loop(self, run: Run, checkpoint: Checkpoint, pending: Pending | None = None) -> CoreDriver:
        """Return a driver of the loop of a run."""
        run.step_limit = checkpoint.step + run.settings.recursion_limit
        return self.driver(run, run_supersteps(run, checkpoint, pending))

    def call(self, run: Run, value: Any) -> CoreDriver:
        """Return a driver of a run from its input until it is idle."""
        return self.driver(run, run_until_idle(run, value))

    def driver(self, run: Run, core: Generator[Effect, Any, Any]) -> CoreDriver:
        return CoreDriver(run, core, self.commits)

    def outcome_of(self, run: Run, value: Any, answer: Answer | None = None) -> RunOutcome:
        """Drive a run until it is idle, and return its outcome."""
        return self.call(run, value).finish(answer)


@pytest.fixture
def make() -> Maker:
    """Return a builder of programs, tasks, runs and scopes, and of drivers for cores."""
    return Maker()
