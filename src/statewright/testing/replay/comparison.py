"""Values of recordings and of replayed runs in forms that can be compared and printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from statewright.checkpoint import NO_ARG
from statewright.data.fingerprint import fingerprint
from statewright.graph import NodeError, Send
from statewright.testing.replay.forms import plain_error
from statewright.testing.replay.records import Completed, Failed, ForParent, Interrupted, RecordedRun, RecordedTask


def plain_task_record(task: RecordedTask) -> list[Any]:
    """Return the node of a recorded task, and its argument if it has one."""
    return [task.node] if task.arg is NO_ARG else [task.node, task.arg]


def plain_targets(targets: Iterable[Any]) -> list[Any]:
    """Return the names of nodes, sorted and without duplicates, then Sends in their order."""
    listed = list(targets)
    return [*sorted({target for target in listed if type(target) is str}), *(t for t in listed if type(t) is not str)]


def plain_writes(writes: Any) -> list[list[Any]]:
    """Return writes as pairs of a field and an update."""
    pairs: Any = cast("dict[str, Any]", writes).items() if isinstance(writes, dict) else writes
    return [list(pair) for pair in pairs]


def plain_outcome(outcome: Any) -> Any:
    """Return a recorded outcome as a list that begins with its kind."""
    if isinstance(outcome, Interrupted):
        return ["interrupts", *((question.kind, question.id, question.value) for question in outcome.interrupts)]
    if isinstance(outcome, Failed):
        return ["raised", *plain_error(outcome.error)]
    if isinstance(outcome, ForParent):
        commands = [outcome.command, *outcome.more]
        return ["Command for the parent", *([command.update, list(command.targets)] for command in commands)]
    return ["answered", dict(plain_writes(outcome.writes))] if isinstance(outcome, Completed) else ["stopped"]


def plain_end(status: str, interrupts: Sequence[str], node: str | None, error: list[str] | None) -> dict[str, Any]:
    """Return the parts of the end of a run that are not empty."""
    parts = {"status": status, "interrupts": list(interrupts), "node": node, "error": error and ": ".join(error)}
    return {name: value for name, value in parts.items() if value}


def describe_end(recorded: RecordedRun) -> str:
    """Return a clause about the end of a recorded run, for messages."""
    end = recorded.rest
    if end is None:
        return "the run was abandoned"
    return ": ".join((f"the run stopped, {end.status}", *(end.error or ())))


def is_same(recorded: object, current: object) -> bool:
    """Return whether two values are equal; exceptions are, if their classes and messages are."""
    return recorded == current or fingerprint(_simplified(recorded)) == fingerprint(_simplified(current))


def is_same_field(recorded: Mapping[str, Any], current: Mapping[str, Any], name: str) -> bool:
    """Return whether both states have a field with the same value."""
    if name not in recorded or name not in current:
        return False
    return fingerprint(_simplified(recorded[name])) == fingerprint(_simplified(current[name]))


def _simplified(value: Any) -> Any:
    """Replace exceptions by their classes and messages, because tracebacks always differ."""
    if isinstance(value, NodeError):
        return ["NodeError", value.node, _simplified(value.error), value.input]
    if isinstance(value, BaseException):
        return plain_error(value)
    if isinstance(value, Send):
        return ["Send", value.node, _simplified(value.arg), value.gather, _simplified(value.timeout)]
    if isinstance(value, list | tuple):
        return [_simplified(item) for item in cast("Sequence[Any]", value)]
    return value
