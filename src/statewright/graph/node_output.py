"""Conversion of a node's return value to writes and targets.

A node may return None, an update, a Command, a Send, a message (if the state consists of messages), or a list of these.
`state/update.py` converts updates to writes; this module handles everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.state import IdSource, UpdateReader, Writes


class ParentCommand(BaseException):
    """Carries Commands out of a subgraph to the task that called it.

    It is a BaseException, so that `except Exception` in a node does not catch it. When it ends the run of the subgraph,
    it contains the Commands of all tasks of the last superstep, in task order.
    """

    def __init__(self, *commands: Command[Any], nodes: Sequence[str] = ()) -> None:
        self.commands = commands
        self.nodes = tuple(nodes)
        """The node that returned each command, in the same order; empty unless several tasks returned commands."""
        super().__init__("a Command for the parent graph")


NO_WRITES: Final[Writes] = {}
"""The writes of results that have targets only, one object for all, since a wide fan-out has many. Never changed."""


class NodeOutput:
    """The writes and the targets in a node's return value."""

    __slots__ = ("targets", "writes")

    def __init__(self, writes: Writes, targets: list[str | Send] | None) -> None:
        self.writes = writes
        self.targets = targets
        """Targets from a goto or from Sends, which replace the edges of the node; None if there are none."""


class SubgraphResult:
    """The result of a node that is a subgraph."""

    __slots__ = ("update", "writes")

    def __init__(self, update: dict[str, Any], writes: Sequence[tuple[str, Any]]) -> None:
        self.update = update
        """The final values of the other fields."""
        self.writes = writes
        """The `(field, update)` pairs of the subgraph for fields with reducers, which the caller's reducers merge."""


class _ElementIds:
    """The source of ids for one element of a list of results: the id of the task, followed by the element's index."""

    __slots__ = ("_index", "_source")

    def __init__(self, source: IdSource, index: int) -> None:
        self._source = source
        self._index = index

    @property
    def id(self) -> str:
        return f"{self._source.id}-{self._index}"


def read_node_output(result: Any, reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    """Return the writes and targets in the return value of a node.

    `ids` supplies the ids of new messages. Raises InvalidUpdateError for a value that a node may not return, and
    ParentCommand if the value contains a Command for the graph that called this one.
    """
    if type(result) is Command:
        return _read_command(cast("Command[Any]", result), reader, node, ids)
    if type(result) is Send:
        return NodeOutput(NO_WRITES, [result])
    if type(result) is SubgraphResult:
        return NodeOutput(_add_writes(reader.read_fields(result.update, node, ids), result.writes), None)
    if isinstance(result, list | tuple) and _is_list_of_results(cast(Sequence[Any], result), reader):
        return _read_list(cast(Sequence[Any], result), reader, node, ids)
    return NodeOutput(reader.read(result, node, ids), None)


def _add_writes(writes: Writes, further: Sequence[tuple[str, Any]]) -> Writes:
    """Return `writes` followed by `further`: as a dict if each channel is written once, otherwise as pairs."""
    if not further:
        return writes
    pairs = [*(writes.items() if isinstance(writes, dict) else writes), *further]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else pairs


def _read_command(command: Command[Any], reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    if command.graph is not None:
        raise ParentCommand(command)
    if command.resumes:
        raise InvalidUpdateError(
            f"Node {node!r} returned Command(resume=...). Only the input of a run can answer questions; "
            f"return an update or a goto."
        )
    goto = command.goto
    candidates = cast(Iterable[object], goto) if isinstance(goto, list | tuple | set | frozenset) else (goto,)
    targets = [_read_target(target, node) for target in candidates]
    writes = NO_WRITES if command.update is None else reader.read(command.update, node, ids)
    return NodeOutput(writes, targets or None)


def _read_list(results: Sequence[Any], reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    """Return the writes of all results in a list, in order, and all their targets; None if no result has targets."""
    commands = [cast("Command[Any]", result) for result in results if type(result) is Command]
    if any(command.graph is not None for command in commands):
        raise ParentCommand(*(command for command in commands if command.graph is not None))
    writes: list[tuple[str, Any]] = []
    targets: list[str | Send] | None = None
    for index, result in enumerate(results):
        output = read_node_output(result, reader, node, _ElementIds(ids, index))
        writes.extend(output.writes.items() if isinstance(output.writes, dict) else output.writes)
        if output.targets is not None:
            targets = [*(targets or ()), *output.targets]
    return NodeOutput(writes, targets)


def _is_list_of_results(elements: Sequence[Any], reader: UpdateReader) -> bool:
    """Return whether each element is a result of its own.

    If not, the whole list is one update: a list of messages, the value of a state with a single value, or
    `(field, update)` pairs.
    """
    if any(type(element) is Command or type(element) is Send for element in elements):
        return True
    if reader.takes_lists:
        return False
    return not elements or not all(isinstance(element, tuple) for element in elements)


def _read_target(target: object, node: str) -> str | Send:
    if isinstance(target, str):
        return target if type(target) is str else str.__str__(target)  # a member of a StrEnum becomes a plain str
    if isinstance(target, Send):
        return target
    raise InvalidUpdateError(
        f"Node {node!r} returned goto={target!r} of type {type(target).__name__}. Name a node, or pass a Send."
    )
