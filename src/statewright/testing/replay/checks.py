"""Comparison of a replayed run with its recording: states, frontiers and the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from statewright.checkpoint import Checkpoint
from statewright.errors import BudgetExceeded
from statewright.runtime.core.commit import saved_form
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.testing.replay.comparison import (
    describe_end,
    is_same,
    is_same_field,
    plain_end,
    plain_outcome,
    plain_targets,
    plain_writes,
)
from statewright.testing.replay.forms import plain_error, plain_held, plain_joins, plain_tasks
from statewright.testing.replay.mismatch import Position, ReplayMismatch
from statewright.testing.replay.records import Completed, RecordedRun, RecordedState, RecordedStep
from statewright.testing.replay.renames import Renames
from statewright.testing.replay.states import StateFingerprints, StateReader


class RunChecks:
    """The checks of one run. Each raises ReplayMismatch if the run differs from the recorded one."""

    def __init__(self, program: Program, recorded: RecordedRun, position: Position) -> None:
        self._program = program
        self._recorded = recorded
        self._position = position
        self.renames = Renames(program)
        self._reader = StateReader()
        self._fingerprints = StateFingerprints()

    def compare(self, position: Position, what: str, recorded: Any, current: Any) -> None:
        if not is_same(recorded, current):
            raise ReplayMismatch(position, what, recorded, current)

    def check_outcome(self, position: Position, recorded: Any, current: Any) -> None:
        """Compare the outcome of a node that is a graph."""
        if not (isinstance(recorded, Completed) and isinstance(current, Completed)):
            self.compare(position, "it has another outcome", plain_outcome(recorded), plain_outcome(current))
            return
        self.compare(position, "it writes other values", plain_writes(recorded.writes), plain_writes(current.writes))
        self.check_targets(position, map(self.renames.target, recorded.targets), current.targets)

    def check_targets(self, position: Position, recorded: Iterable[Any], current: Iterable[Any]) -> None:
        self.compare(position, "it has other targets", plain_targets(recorded), plain_targets(current))

    def check_state(self, step: RecordedStep, checkpoint: Checkpoint, what: str) -> None:
        """Compare the state and the frontier after a superstep."""
        position, after = self._position.at(step.number), step.after
        current = saved_form(self._program, checkpoint)
        if after is None:
            end = describe_end(self._recorded)
            raise ReplayMismatch(position, "the superstep is completed", end, "its results were applied")
        self._reader.advance(after.changes)
        if self._fingerprints.of(current.values) != after.fingerprint:
            self._check_fields(position, what, current.values)
        self._check_control(position, after, current)

    def _check_fields(self, position: Position, what: str, current: Mapping[str, Any]) -> None:
        recorded = self._reader.values
        names = [*recorded, *(name for name in current if name not in recorded)]
        different = [name for name in names if not is_same_field(recorded, current, name)]
        if different:
            before = {name: recorded[name] for name in different if name in recorded}
            now = {name: current[name] for name in different if name in current}
            raise ReplayMismatch(position, f"{what}, in {', '.join(map(repr, different))}", before, now)

    def _check_control(self, position: Position, after: RecordedState, current: Checkpoint) -> None:
        tasks = self.renames.tasks
        self.compare(position, "other tasks are due next", tasks(after.frontier), plain_tasks(current.frontier))
        self.compare(position, "other tasks are deferred", tasks(after.held), plain_held(current.held))
        joins = plain_joins(self._program, current.joins)
        self.compare(position, "the incomplete joins differ", sorted(self.renames.joins(after.joins)), sorted(joins))

    def check_end(self, outcome: RunOutcome, last: RecordedStep | None, index: int) -> None:
        """Compare the end of the run: `last` is a superstep that ran and was not applied, `index` the next one."""
        steps, recorded = self._recorded.steps, self._recorded.rest
        status = f"the run stopped, {outcome.status}" + (f": {outcome.error}" if outcome.error is not None else "")
        if last is not None and last.after is not None:
            position = self._position.at(last.number)
            raise ReplayMismatch(position, "the superstep is not completed", "its results were applied", status)
        if index < len(steps):
            step = steps[index]
            nodes = ", ".join(repr(task.node) for task in step.tasks)
            raise ReplayMismatch(self._position.at(step.number), "the run stops early", f"ran {nodes}", status)
        if recorded is None:
            return
        error = plain_error(outcome.error) if outcome.error is not None else None
        if error is not None and recorded.error is not None and isinstance(outcome.error, BudgetExceeded):
            error = [error[0], recorded.error[1]]  # the message contains the seconds, which always differ
        node = None if recorded.node is None else self.renames.node(recorded.node)
        before = plain_end(recorded.status, recorded.interrupts, node, recorded.error)
        questions = [question.id for question in outcome.interrupts]
        now = plain_end(outcome.status, questions, outcome.node, error)
        self.compare(self._position, "the run stops differently", before, now)
