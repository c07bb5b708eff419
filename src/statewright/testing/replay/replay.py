"""Replay of recorded runs with the current graph, without executing nodes, to detect changes in behaviour.

Replay uses the core of real runs, `run_until_idle`, and performs its effects in place of a driver. The current code
computes most of a run again, and the result is compared with the recording. The remainder is read from the file:

- *A call.* Computed: the input is checked, split into writes and applied, answers are matched to the open questions,
  and an in-memory saver stores the thread. Read: the input, the limits and breakpoints of the call, and the checkpoints
  on the thread that no recorded call had saved.
- *A node.* Read: its writes, interrupts and error. Its targets are read if it returned them (in a Command or as Sends),
  and must still be allowed. Otherwise they are computed: its conditional edges are evaluated on the current state. The
  recorded journal and number of attempts are not used; they are for people who read the file.
- *A subgraph that is a node.* Computed: its run is replayed in the same way, once for each attempt, and its result is
  converted to writes.
- *A graph that a node's function calls.* Computed if it is among `graphs`: its run is replayed. The use that
  the node made of its result is read, with the writes of the node.
- *A superstep.* Computed: the frontier, deferred tasks and joins, and the state, with the current channels and
  reducers.
- *The end.* Computed: the status, breakpoints, the recursion limit, and whether a budget is exceeded. Read: a request
  to stop, and the tokens and costs that were spent.

If a node was renamed, its former name must be in its `aliases`. Untracked values are not recorded. States are not
migrated: if the schema of the state changes, record the runs again. Reducers, conditional edges and channels are
called, so they must be pure. The replay uses the ids of the recording (`stable_ids`). Times are not compared.
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
    """The error with which the run failed; a StoredError unless its class is built into Python or Statewright."""
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
    """Replay the calls of a recording with the current graph, without running a node.

    `graphs` are the graphs that the functions of nodes call, and are matched by name; subgraphs that are nodes need not
    be listed. `context` is passed to conditional edges that have a context parameter. `serde` must know the same types
    as the serde that was used for recording. Raises ReplayMismatch if a run differs from its recording, and NewerFormat
    or SerdeError if the file cannot be read.
    """
    recording = read_recording(file, app, serde=serde)
    inner = {graph.graph.name: graph for _, graph in subgraphs_of(app.graph, recurse=True)}
    by_name = {**inner, **{graph.graph.name: graph for graph in graphs}}
    playback = Playback(str(Path(file)), replay_serde(app, serde), by_name)
    return [_replay_call(playback, app, context, call) for call in recording.calls]


def _replay_call(playback: Playback, app: CompiledGraph, context: Any, recorded: RecordedRun) -> Replayed:
    """Replay one call of the graph."""
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
        playback.saver.delete_thread(recorded.thread_id)  # the thread was deleted before this call
    outcome = RunPlayer(playback, run, recorded).play(recorded.input)
    steps = tuple(tuple(task.node for task in step.tasks) for step in recorded.steps if not step.is_input)
    unchecked = tuple(playback.unchecked)
    if outcome is None:
        return Replayed(None, "abandoned", (), None, steps, unchecked)
    value = program.output(outcome.checkpoint.values)
    return Replayed(value, outcome.status, outcome.interrupts, outcome.error, steps, unchecked)
