"""Comparison of a replayed run with its recording: outcomes of tasks, states, frontiers and the end of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from statewright.checkpoint import Checkpoint
from statewright.data.fingerprint import fingerprint
from statewright.errors import BudgetExceeded
from statewright.graph import NodeError, Send
from statewright.runtime.core.commit import saved_form
from statewright.runtime.core.program import HANDLER_SUFFIX, Program
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.testing.replay.forms import plain_deferred, plain_error, plain_joins, plain_tasks
from statewright.testing.replay.mismatch import Position, ReplayMismatch
from statewright.testing.replay.records import (
    Completed,
    Failed,
    ForParent,
    Interrupted,
    RecordedRun,
    RecordedState,
    RecordedStep,
)
from statewright.testing.replay.states import StateFingerprints, apply_changes


class NodeRenamer:
    """Replaces former names of nodes in a recording, which are now aliases of these nodes, with the current names."""

    def __init__(self, program: Program) -> None:
        nodes = {alias: node.name for node in program.graph.nodes.values() for alias in node.aliases}
        handlers = {alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in nodes.items()}
        self._names: Mapping[str, str] = {**nodes, **handlers}

    def rename_node(self, name: str) -> str:
        return self._names.get(name, name)

    def rename_tasks(self, tasks: Sequence[list[Any]]) -> list[list[Any]]:
        """Rename the nodes of tasks in the form of `plain_tasks` or `plain_deferred`."""
        return [[self.rename_node(name), *details] for name, *details in tasks]

    def rename_joins(self, joins: Sequence[list[Any]]) -> list[list[Any]]:
        """Rename the nodes of joins in the form of `plain_joins`."""
        rename = self.rename_node
        return [
            [[*map(rename, starts)], rename(end), sorted(map(rename, completed_starts))]
            for starts, end, completed_starts in joins
        ]

    def rename_target(self, target: Any) -> Any:
        if isinstance(target, Send):
            return Send(self.rename_node(target.node), target.arg, gather=target.gather, timeout=target.timeout)
        return self.rename_node(target)


class RunChecks:
    """The checks of one replayed run. Each raises ReplayMismatch if the run differs from the recorded run."""

    def __init__(self, program: Program, recorded: RecordedRun, position: Position) -> None:
        self._program = program
        self._recorded = recorded
        self._position = position
        self.renamer = NodeRenamer(program)
        self._values: dict[str, Any] = {}
        """The recorded state after the superstep that was checked last."""
        self._fingerprints = StateFingerprints()

    def compare(self, position: Position, what: str, recorded: Any, current: Any) -> None:
        if not is_same(recorded, current):
            raise ReplayMismatch(position, what, recorded, current)

    def check_outcome(self, position: Position, recorded: Any, current: Any) -> None:
        """Compare the outcome of a task whose node is a graph."""
        if not (isinstance(recorded, Completed) and isinstance(current, Completed)):
            self.compare(position, "its outcome differs", plain_outcome(recorded), plain_outcome(current))
            return
        self.compare(position, "its writes differ", plain_writes(recorded.writes), plain_writes(current.writes))
        self.check_targets(position, map(self.renamer.rename_target, recorded.targets), current.targets)

    def check_targets(self, position: Position, recorded: Iterable[Any], current: Iterable[Any]) -> None:
        self.compare(position, "its targets differ", plain_targets(recorded), plain_targets(current))

    def check_state(self, step: RecordedStep, checkpoint: Checkpoint, what: str) -> None:
        """Compare the state and the frontier after a superstep. `what` is the clause for an error if values differ."""
        position, after = self._position.at(step.number), step.after
        current = saved_form(self._program, checkpoint)
        if after is None:
            end = describe_end(self._recorded)
            raise ReplayMismatch(position, "the superstep is completed", end, "its results were applied")
        self._values = apply_changes(self._values, after.changes)
        if self._fingerprints.of(current.values) != after.fingerprint:
            self._check_fields(position, what, current.values)
        self._check_control(position, after, current)

    def _check_fields(self, position: Position, what: str, current: Mapping[str, Any]) -> None:
        recorded = self._values
        names = [*recorded, *(name for name in current if name not in recorded)]
        different = [name for name in names if not is_same_field(recorded, current, name)]
        if different:
            before = {name: recorded[name] for name in different if name in recorded}
            now = {name: current[name] for name in different if name in current}
            raise ReplayMismatch(position, f"{what}, in {', '.join(map(repr, different))}", before, now)

    def _check_control(self, position: Position, after: RecordedState, current: Checkpoint) -> None:
        frontier, deferred = map(self.renamer.rename_tasks, (after.frontier, after.deferred))
        self.compare(position, "different tasks are due next", frontier, plain_tasks(current.frontier))
        self.compare(position, "different tasks are deferred", deferred, plain_deferred(current.deferred))
        joins = plain_joins(self._program, current.joins)
        self.compare(
            position, "the incomplete joins differ", sorted(self.renamer.rename_joins(after.joins)), sorted(joins)
        )

    def check_end(self, outcome: RunOutcome, incomplete_step: RecordedStep | None, next_index: int) -> None:
        """Compare the end of the run.

        `incomplete_step` is the superstep whose tasks have run but whose results were not applied; None if there is
        none. `next_index` is the index of the next recorded superstep.
        """
        steps, recorded = self._recorded.steps, self._recorded.end
        status = f"the run stopped, {outcome.status}" + (f": {outcome.error}" if outcome.error is not None else "")
        if incomplete_step is not None and incomplete_step.after is not None:
            position = self._position.at(incomplete_step.number)
            raise ReplayMismatch(position, "the superstep is not completed", "its results were applied", status)
        if next_index < len(steps):
            step = steps[next_index]
            nodes = ", ".join(repr(task.node) for task in step.tasks)
            raise ReplayMismatch(self._position.at(step.number), "the run stops early", f"ran {nodes}", status)
        if recorded is None:
            return
        error = plain_error(outcome.error) if outcome.error is not None else None
        if error is not None and recorded.error is not None and isinstance(outcome.error, BudgetExceeded):
            error = [error[0], recorded.error[1]]  # the messages contain the elapsed seconds, which always differ
        node = None if recorded.node is None else self.renamer.rename_node(recorded.node)
        before = plain_end(recorded.status, recorded.interrupts, node, recorded.error)
        questions = [question.id for question in outcome.interrupts]
        now = plain_end(outcome.status, questions, outcome.node, error)
        self.compare(self._position, "the run stops differently", before, now)


# -- conversion to values that can be compared and printed


def plain_targets(targets: Iterable[Any]) -> list[Any]:
    """Return the names of nodes, sorted and without duplicates, followed by the Sends in their original order."""
    all_targets = list(targets)
    names = sorted({target for target in all_targets if type(target) is str})
    return [*names, *(target for target in all_targets if type(target) is not str)]


def plain_writes(writes: Any) -> list[list[Any]]:
    """Return writes, which are a dict or a sequence of pairs, as `[field, update]` pairs."""
    pairs: Any = cast("dict[str, Any]", writes).items() if isinstance(writes, dict) else writes
    return [list(pair) for pair in pairs]


def plain_outcome(outcome: Any) -> Any:
    """Return the record of an outcome as a list: a word for its kind, such as "raised", and its contents."""
    if isinstance(outcome, Interrupted):
        return ["interrupts", *((question.kind, question.id, question.value) for question in outcome.interrupts)]
    if isinstance(outcome, Failed):
        return ["raised", *plain_error(outcome.error)]
    if isinstance(outcome, ForParent):
        commands = [outcome.command, *outcome.more]
        return ["Command for the parent", *([command.update, list(command.targets)] for command in commands)]
    return ["returned", dict(plain_writes(outcome.writes))] if isinstance(outcome, Completed) else ["stopped"]


def plain_end(status: str, interrupts: Sequence[str], node: str | None, error: list[str] | None) -> dict[str, Any]:
    """Return the end of a run as a dict, without entries that are empty or None."""
    entries = {"status": status, "interrupts": list(interrupts), "node": node, "error": error and ": ".join(error)}
    return {name: value for name, value in entries.items() if value}


def describe_end(recorded: RecordedRun) -> str:
    """Return a clause for error messages that says how a recorded run ended."""
    end = recorded.end
    if end is None:
        return "the run was abandoned"
    return ": ".join((f"the run stopped, {end.status}", *(end.error or ())))


def is_same(recorded: object, current: object) -> bool:
    """Return whether two values are equal. Exceptions count as equal if their classes and messages are equal."""
    return recorded == current or fingerprint(_simplified(recorded)) == fingerprint(_simplified(current))


def is_same_field(recorded: Mapping[str, Any], current: Mapping[str, Any], name: str) -> bool:
    """Return whether a field exists in both states and has the same value."""
    if name not in recorded or name not in current:
        return False
    return fingerprint(_simplified(recorded[name])) == fingerprint(_simplified(current[name]))


def _simplified(value: Any) -> Any:
    """Replace exceptions with their classes and messages, because tracebacks always differ."""
    if isinstance(value, NodeError):
        return ["NodeError", value.node, _simplified(value.error), value.input]
    if isinstance(value, BaseException):
        return plain_error(value)
    if isinstance(value, Send):
        return ["Send", value.node, _simplified(value.arg), value.gather, _simplified(value.timeout)]
    if isinstance(value, list | tuple):
        return [_simplified(item) for item in cast("Sequence[Any]", value)]
    return value
