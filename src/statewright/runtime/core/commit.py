"""The commit of a superstep, worked out as far as its saver asks.

A saver in memory wants the checkpoint and little else, and a superstep is saved in every turn of the loop. So what
only those need that write to a disk is made when they ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Checkpoint, Commit, Source, TaskResult
from statewright.events import Log
from statewright.ids import CheckpointId, TaskId
from statewright.runtime.core.apply import changeable_fields, deltas, differences
from statewright.runtime.core.log import ended, started, stepped
from statewright.runtime.core.run import Run
from statewright.runtime.core.saving import saved_form


class StepCommit(Commit):
    """What a superstep, an input or an update from outside saves."""

    # Not the run itself: a saver in memory keeps commits, and would keep all that their runs were given.
    __slots__ = (
        "_before",
        "_end",
        "_memories",
        "_migrated",
        "_more",
        "_noted",
        "_program",
        "_results",
        "_run_metadata",
        "_start",
        "rewritten",
        "spans_supersteps",
    )

    def __init__(
        self,
        run: Run,
        before: Checkpoint | None,
        after: Checkpoint,
        results: Sequence[TaskResult],
        source: Source,
        created_at: datetime,
    ) -> None:
        assert run.line is not None
        self._program = run.program
        self._run_metadata = run.metadata
        self._before = before
        self._results = results
        self._start = () if run.claimed else started(run)
        self._end = ended(run, "completed") if source == "loop" and after.at_rest else ()
        self._migrated, run.migrated = run.migrated, None
        self._memories = dict(run.memories) if run.memories else None
        self._more: Mapping[str, Any] | None = None
        self._noted = run.take_noted() if run.log_buffer else ()
        self.spans_supersteps = False
        """Whether several supersteps are saved as one, so that results alone do not tell what has changed."""
        self.rewritten: Iterable[str] = ()
        """The fields that these supersteps wrote, but for lists that only grew."""
        self.line = run.line
        self.parent_id = self.expected = CheckpointId(before.id) if before is not None else None
        self.checkpoint = after if not run.program.untracked else saved_form(run.program, after)
        self.source = source
        self.run_id = run.run_id
        self.created_at = created_at
        self.pending = self.hold = self.size = None
        self.drops = self.beside = ()
        self.graph_version = run.program.graph.version
        self.overlaps = run.overlaps and (run.claimed or run.nested)  # whether the thread is ours must be known

    @property
    def deltas(self) -> Mapping[str, Any] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        before = self._before
        if before is None:
            return None
        if self.spans_supersteps or self._migrated is not None:
            # A migration may have changed anything in place, so its values are stored whole.
            rewritten = self.rewritten if self._migrated is None else changeable_fields(self.checkpoint.values)
            old = self._migrated or before.values
            return differences(self._program, old, self.checkpoint.values, frozenset(rewritten))
        return deltas(self._program, self._results, before.values, self.checkpoint.values)

    @property
    def reported(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        known = self._before.reported if self._before is not None else ()
        own = self.checkpoint.reported
        if len(own) >= len(known) and own[: len(known)] == known:
            return Added([[name, update] for name, update in own[len(known) :]]) if len(own) > len(known) else None
        return [[name, update] for name, update in own]  # begun anew

    @property
    def metadata(self) -> Mapping[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        nodes = [result.task.node for result in self._results]
        memories = {"memories": self._memories} if self._memories else {}
        return {"nodes": nodes, **self._run_metadata, **memories, **(self._more or {})}

    def put_beside(self, line: BranchKey, checkpoint: Checkpoint, expected: CheckpointId | None) -> None:
        """Make it a commit of another line, which goes with that of the run: it neither claims nor logs anything."""
        self.line, self.expected, self.checkpoint = line, expected, checkpoint
        self.hold = self._memories = None
        self._start = ()

    def note(self, more: Mapping[str, Any] | None) -> None:
        """Keep more with the commit."""
        self._more = more

    @property
    def results(self) -> Sequence[TaskResult]:
        return self._results

    @property
    def finished(self) -> Sequence[TaskId]:
        """The tasks whose results it applies."""
        return [result.task.id for result in self._results]

    @property
    def log(self) -> Log | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        entries = (*self._start, *self._noted)
        if self.source == "loop":
            entries = (*entries, *stepped(self._results, self.checkpoint.step), *self._end)
        return Log(self.run_id, self.created_at, entries) if entries else None
