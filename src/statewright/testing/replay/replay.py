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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewright.checkpoint import BranchKey, Interrupt
from statewright.runtime import CompiledGraph, RunControl
from statewright.runtime.invocation.run import Run
from statewright.runtime.invocation.run_config import RunConfig, RunPorts
from statewright.runtime.lifecycle.snapshot import subgraphs_of
from statewright.serde.serde import Serde
from statewright.testing.replay.file import read_recording, replay_serde
from statewright.testing.replay.names import run_name
from statewright.testing.replay.records import RecordedRun
from statewright.testing.replay.run_player import RunPlayer, recorded_config, recorded_settings
from statewright.testing.replay.task_player import Playback


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
    inner = {graph.graph.name: graph for _, graph in subgraphs_of(app.graph, recurse=True)}
    by_name = {**inner, **{graph.graph.name: graph for graph in graphs}}
    playback = Playback(str(Path(file)), replay_serde(app, serde), by_name)
    return [_replay_call(playback, app, context, call) for call in recording.calls]


def _replay_call(playback: Playback, app: CompiledGraph, context: Any, recorded: RecordedRun) -> Replayed:
    """Replay one call, on a thread of the saver that all calls of the replay share."""
    playback.unchecked = {}
    program = app.program
    run = Run(
        program,
        recorded_settings(recorded),
        recorded_config(recorded, program, RunConfig(context=context)),
        RunPorts(clock=playback.clock, store=app.store),
        run_id=run_name(recorded.number),
        saver=playback.saver if recorded.saves else None,
        line=BranchKey(recorded.thread_id or "", recorded.namespace, recorded.branch) if recorded.saves else None,
        control=RunControl(),
    )
    if recorded.saves and recorded.head is None and recorded.thread_id is not None:
        playback.saver.delete_thread(recorded.thread_id)  # it was deleted between two recorded calls
    outcome = RunPlayer(playback, run, recorded).play(recorded.given)
    steps = tuple(tuple(task.node for task in step.tasks) for step in recorded.steps if not step.is_input)
    unchecked = tuple(playback.unchecked)
    if outcome is None:
        return Replayed(None, "abandoned", (), None, steps, unchecked)
    value = program.output(outcome.checkpoint.values)
    return Replayed(value, outcome.status, outcome.interrupts, outcome.error, steps, unchecked)
