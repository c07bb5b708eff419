"""Replay of recorded runs by the current graph, without executing nodes, to detect changes in behaviour.

The core is the one that real runs use, `run_until_idle`; replay performs its effects in place of a driver. Most of a
run is computed again by the current code and compared with the recording; the remainder is read from the file.

*A call.* Computed: the input is checked, split into writes and applied; answers are matched to the open questions; an
in-memory saver holds the thread. Read: the input, the limits and breakpoints of the call, and the checkpoints on the
thread that no recorded call had saved.

*A node.* Read: its writes, its interrupts, its error, and its targets if it returned them (in a Command or as Sends),
which must still be allowed. Otherwise its targets are computed: conditional edges are evaluated again on the current
state. Its journal and its attempts are in the file for human readers only.

*A subgraph that is a node.* Computed: it is replayed in turn, and its result is converted to writes, once for each
attempt. A graph that a node calls in its function is replayed too, if it is among `graphs`; how the node uses its
result is read.

*A superstep.* Computed: the state, by the current channels and reducers; the frontier, deferred tasks, joins.

*The end.* Computed: the status, breakpoints, the recursion limit, budgets. Read: a request to stop, and the tokens and
costs that were spent.

A node that was renamed, with its former name in `aliases`, counts as the same. Untracked values are not recorded.
States are not migrated: if the schema of the state changes, record the runs again. Reducers, conditional edges and
channels are called, so they must be pure. Ids are those of the recording (`stable_ids`); times are not compared.
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
from statewright.testing.replay.records import RecordedRun
from statewright.testing.replay.run_player import RunPlayer, config_from_record, settings_from_record
from statewright.testing.replay.stable_ids import stable_run_id
from statewright.testing.replay.task_player import Playback


@dataclass(frozen=True, slots=True)
class Replayed:
    """A call of a recording that was replayed without a mismatch."""

    value: Any
    """The part of the final state that the output schema selects."""
    status: str
    """`completed`, `waiting`, `paused`, `failed`, `cancelled`; `abandoned` if a stream was not read to its end."""
    interrupts: tuple[Interrupt, ...]
    error: BaseException | None
    """A StoredError if the class of the error is neither Python's nor Statewright's."""
    steps: tuple[tuple[str, ...], ...]
    """The nodes of each superstep."""
    unchecked: tuple[str, ...]
    """The graphs that nodes called but that are not among `graphs`, so that their runs were not replayed."""


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
    listed. `context` is for conditional edges with a context parameter. `serde` must know the same types as the one
    used for recording. Raises ReplayMismatch if a run differs; NewerFormat and SerdeError for unreadable files.
    """
    recording = read_recording(file, app, serde=serde)
    inner = {graph.graph.name: graph for _, graph in subgraphs_of(app.graph, recurse=True)}
    by_name = {**inner, **{graph.graph.name: graph for graph in graphs}}
    playback = Playback(str(Path(file)), replay_serde(app, serde), by_name)
    return [_replay_call(playback, app, context, call) for call in recording.calls]


def _replay_call(playback: Playback, app: CompiledGraph, context: Any, recorded: RecordedRun) -> Replayed:
    """Replay a call, with the saver that all calls of the replay share."""
    playback.unchecked = {}
    program = app.program
    run = Run(
        program,
        settings_from_record(recorded),
        config_from_record(recorded, program, RunConfig(context=context)),
        RunPorts(clock=playback.clock, store=app.store),
        run_id=stable_run_id(recorded.number),
        saver=playback.saver if recorded.saves else None,
        branch_key=BranchKey(recorded.thread_id or "", recorded.namespace, recorded.branch) if recorded.saves else None,
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
