"""Replay of recorded runs by the current graph, without running a node: a change that alters them is found and named.

The core is the one that runs use, `run_until_idle`; replay performs its effects in place of a driver. Most of a run is
computed again by the current code and compared with the recording; the rest is taken from the file.

*A call.* Computed: the input is checked, split into writes and applied; answers are matched to the open questions; a
saver of the player's own holds the thread. From the file: the input, the limits and breakpoints of the call, and the
checkpoints on the thread that no recorded call had made.

*A node.* From the file: its writes, its interrupts, its error, and its targets if it returned them (a Command, a Send),
which must still be allowed. Computed: its targets otherwise; conditional edges are evaluated again on the current
state. Its journal and its attempts are in the file for readers; replay does not need them.

*A subgraph that is a node.* Computed: it is replayed in turn, and its result turned into writes, once for each attempt.
A graph that a node calls in its function is replayed too, if it is among `graphs`; the node's use of its result is
taken from the file.

*A superstep.* Computed: the state, by the current channels and reducers; the frontier, deferred tasks, joins.

*The end.* Computed: the status, breakpoints, the recursion limit, budgets. From the file: a request to stop, and what
was spent.

Renamed nodes with `aliases` count as the same. Untracked values are in no file. States are not migrated: a graph with
another shape of state needs new recordings. Reducers, conditional edges and channels are called, so they must be pure.
Ids are those of the recording (`names`); times are not compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from statewright.checkpoint import BranchKey, InMemorySaver, Interrupt
from statewright.runtime import CompiledGraph, RunControl
from statewright.runtime.config import OnUnfinished, Settings
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run, SubgraphCall
from statewright.runtime.invocation.run_config import RunConfig, RunPorts
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.runtime.tasks.scope import Scope
from statewright.serde.serde import Serde
from statewright.testing.clock import FakeClock
from statewright.testing.replay.codecs import replay_serde
from statewright.testing.replay.file import read_recording
from statewright.testing.replay.names import run_name
from statewright.testing.replay.records import RecordedRun
from statewright.testing.replay.renames import Renames
from statewright.testing.replay.run_player import RunPlayer


@dataclass(frozen=True, slots=True)
class Replayed:
    """A call of a recording that was replayed without a mismatch."""

    value: Any
    """The state as the output schema shows it."""
    status: str
    """`completed`, `waiting`, `paused`, `failed`, `cancelled`; `abandoned` if it was not read to its end."""
    interrupts: tuple[Interrupt, ...]
    error: BaseException | None
    """A StoredError, if the class is neither Python's nor Statewright's."""
    steps: tuple[tuple[str, ...], ...]
    """The nodes of each superstep."""
    unchecked: tuple[str, ...]
    """The graphs called by nodes that are not among `graphs`, and so were not checked."""


def replay(
    file: str | os.PathLike[str],
    app: CompiledGraph,
    *,
    graphs: Iterable[CompiledGraph] = (),
    context: Any = None,
    serde: Serde | None = None,
) -> list[Replayed]:
    """Replay the calls of a recording by the current graph, without running a node.

    `graphs` are the graphs that nodes call in their functions, matched by name; subgraphs that are nodes need not be
    listed. `context` is for conditional edges with a context parameter. `serde` must be like that of the recording.
    Raises ReplayMismatch if a run takes another course; NewerFormat and SerdeError for files that cannot be read.
    """
    recording = read_recording(file, app, serde=serde)
    player = _Player(str(Path(file)), app, graphs, context, replay_serde(app, serde))
    return [player.replay_call(call) for call in recording.calls]


class _Player:
    """Replays the calls of a recording in order, on threads of its own saver."""

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

    def replay_call(self, recorded: RecordedRun) -> Replayed:
        self.unchecked = {}
        program = self._app.program
        branch = BranchKey(recorded.thread_id or "", recorded.namespace, recorded.branch)
        run = Run(
            program,
            _settings(recorded),
            _config(recorded, program, RunConfig(context=self._context)),
            RunPorts(clock=self.clock, store=self._app.store),
            run_id=run_name(recorded.number),
            saver=self.saver if recorded.saves else None,
            line=branch if recorded.saves else None,
            control=RunControl(),
        )
        if recorded.saves and recorded.head is None and recorded.thread_id is not None:
            self.saver.delete_thread(recorded.thread_id)  # it was deleted between two recorded calls
        outcome = RunPlayer(self, run, recorded).play(recorded.given)
        steps = tuple(tuple(task.node for task in step.tasks) for step in recorded.steps if not step.is_input)
        unchecked = tuple(self.unchecked)
        if outcome is None:
            return Replayed(None, "abandoned", (), None, steps, unchecked)
        value = program.output(outcome.checkpoint.values)
        return Replayed(value, outcome.status, outcome.interrupts, outcome.error, steps, unchecked)

    def replay_nested(
        self,
        recorded: RecordedRun,
        graph: CompiledGraph,
        scope: Scope,
        branch: BranchKey | None,
        value: Any,
        call: SubgraphCall,
    ) -> RunOutcome | None:
        """Replay the call of a graph by a task, and return its outcome; None if the recorded call was abandoned."""
        caller = scope.run
        call.takes_state = True
        run = Run(
            graph.program,
            _settings(recorded),
            _config(recorded, graph.program, caller.config),
            RunPorts(clock=self.clock, store=graph.store or caller.ports.store),
            run_id=caller.run_id,
            saver=caller.saver if branch is not None else None,
            line=branch,
            control=caller.control,
            answers=caller.answers,
            call=call,
            live=caller.live,
            spent=caller.spending if caller.config.budget is not None else caller.spent,
        )
        run.parent = run.caller = None  # it is played by itself: its caller is not saved or stopped with it
        return RunPlayer(self, run, recorded).play(value)


def _config(recorded: RecordedRun, program: Program, config: RunConfig) -> RunConfig:
    renames = Renames(program)
    return config._replace(
        budget=recorded.budget,
        durability="exit" if recorded.saves_at_rest else "sync",
        breaks_before=frozenset(map(renames.node, recorded.breaks_before)),
        breaks_after=frozenset(map(renames.node, recorded.breaks_after)),
        on_unfinished=cast("OnUnfinished | None", recorded.on_unfinished),
        keeps_calls=recorded.keeps_calls,
    )


def _settings(recorded: RecordedRun) -> Settings:
    settings = Settings()
    settings.thread_id, settings.branch = recorded.thread_id, recorded.branch
    settings.checkpoint_id, settings.recursion_limit = recorded.checkpoint_id, recorded.recursion_limit
    return settings
