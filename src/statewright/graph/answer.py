"""Conversion of the values that nodes return to writes and targets.

A node may return None, an update, a Command, a Send, a message if the state consists of messages, or a list of these.
`state/update.py` converts updates; this module handles everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.state import IdSource, UpdateReader, Writes


class ParentCommand(BaseException):
    """Carries Commands out of a subgraph to the calling task. A BaseException, so that nodes do not catch it.

    If a run ends with it, it contains the Commands of all tasks of the last superstep, in task order.
    """

    def __init__(self, *commands: Command[Any], nodes: Sequence[str] = ()) -> None:
        self.commands = commands
        self.nodes = tuple(nodes)
        """The node that returned each command, if several did."""
        super().__init__("a Command for the parent graph")


class NodeOutput:
    """The writes of a node's result, and its targets if it has a goto."""

    __slots__ = ("targets", "writes")

    def __init__(self, writes: Writes, targets: list[str | Send] | None) -> None:
        self.writes = writes
        self.targets = targets
        """Targets that replace the edges of the node; None if the result has none."""


class SubgraphResult:
    """The result of a subgraph as a node: an update, and its writes to fields with reducers."""

    __slots__ = ("update", "writes")

    def __init__(self, update: dict[str, Any], writes: Sequence[tuple[str, Any]]) -> None:
        self.update = update
        self.writes = writes
        """The writes one by one, so that the reducers of the caller can merge them."""


class _ElementIds:
    """The source of ids for one element of a list of results: the id of the task, and the index."""

    __slots__ = ("_index", "_source")

    def __init__(self, source: IdSource, index: int) -> None:
        self._source = source
        self._index = index

    @property
    def id(self) -> str:
        return f"{self._source.id}-{self._index}"


def read_node_output(answer: Any, reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    """Return the writes and targets of a result.

    Raises InvalidUpdateError, or ParentCommand if a Command is for the graph that called this one.
    """
    if type(answer) is Command:
        return _from_command(cast("Command[Any]", answer), reader, node, ids)
    if type(answer) is Send:
        return NodeOutput({}, [answer])
    if type(answer) is SubgraphResult:
        return NodeOutput(_join(reader.read_fields(answer.update, node, ids), answer.writes), None)
    if isinstance(answer, list | tuple) and _has_several_results(cast(Sequence[Any], answer), reader):
        return _from_list(cast(Sequence[Any], answer), reader, node, ids)
    return NodeOutput(reader.read(answer, node, ids), None)


def _join(writes: Writes, further: Sequence[tuple[str, Any]]) -> Writes:
    """Return `writes` followed by `further` ones: as a dict if each channel is written once, otherwise as pairs."""
    if not further:
        return writes
    pairs = [*(writes.items() if isinstance(writes, dict) else writes), *further]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else pairs


def _from_command(command: Command[Any], reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    if command.graph is not None:
        raise ParentCommand(command)
    if command.resumes:
        raise InvalidUpdateError(
            f"Node {node!r} returned Command(resume=...). Only the input of a run can answer questions; "
            f"return an update or a goto."
        )
    goto = command.goto
    candidates = cast(Iterable[object], goto) if isinstance(goto, list | tuple | set | frozenset) else (goto,)
    targets = [_checked_target(target, node) for target in candidates]
    writes = {} if command.update is None else reader.read(command.update, node, ids)
    return NodeOutput(writes, targets or None)


def _from_list(results: Sequence[Any], reader: UpdateReader, node: str, ids: IdSource) -> NodeOutput:
    """Join the results of a list: their writes in order, and all their targets if any has one."""
    commands = [cast("Command[Any]", result) for result in results if type(result) is Command]
    if any(command.graph is not None for command in commands):
        raise ParentCommand(*(command for command in commands if command.graph is not None))
    writes: list[tuple[str, Any]] = []
    targets: list[str | Send] | None = None
    for index, result in enumerate(results):
        answer = read_node_output(result, reader, node, _ElementIds(ids, index))
        writes.extend(answer.writes.items() if isinstance(answer.writes, dict) else answer.writes)
        if answer.targets is not None:
            targets = [*(targets or ()), *answer.targets]
    return NodeOutput(writes, targets)


def _has_several_results(elements: Sequence[Any], reader: UpdateReader) -> bool:
    """Return whether a list contains results, rather than being one update: messages, a single value, or pairs."""
    if any(type(element) is Command or type(element) is Send for element in elements):
        return True
    if reader.takes_lists:
        return False
    return not elements or not all(isinstance(element, tuple) for element in elements)


def _checked_target(target: object, node: str) -> str | Send:
    if isinstance(target, str):
        return target if type(target) is str else str.__str__(target)  # a member of a StrEnum, for example
    if isinstance(target, Send):
        return target
    raise InvalidUpdateError(
        f"Node {node!r} returned goto={target!r} of type {type(target).__name__}. Name a node, or pass a Send."
    )
