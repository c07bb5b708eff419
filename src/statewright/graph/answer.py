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


class Answer:
    """The writes of a result, and its targets if it has a goto."""

    __slots__ = ("targets", "writes")

    def __init__(self, writes: Writes, targets: list[str | Send] | None) -> None:
        self.writes = writes
        self.targets = targets
        """Targets that replace the edges of the node; None if the result has none."""


class Reported:
    """The result of a subgraph as a node: an update, and its writes to fields with reducers."""

    __slots__ = ("update", "written")

    def __init__(self, update: dict[str, Any], written: Sequence[tuple[str, Any]]) -> None:
        self.update = update
        self.written = written


class _Part:
    """The source of ids for an element of a list of results: the id of the list, and the index."""

    __slots__ = ("_index", "_source")

    def __init__(self, source: IdSource, index: int) -> None:
        self._source = source
        self._index = index

    @property
    def id(self) -> str:
        return f"{self._source.id}-{self._index}"


def read_answer(answer: Any, reader: UpdateReader, node: str, ids: IdSource) -> Answer:
    """Return the writes and targets of a result.

    Raises InvalidUpdateError, or ParentCommand if a Command is for the graph that called this one.
    """
    if type(answer) is Command:
        return _from_command(cast("Command[Any]", answer), reader, node, ids)
    if type(answer) is Send:
        return Answer({}, [answer])
    if type(answer) is Reported:
        return Answer(_join(reader.read_fields(answer.update, node, ids), answer.written), None)
    if isinstance(answer, list | tuple) and _has_several_results(cast(Sequence[Any], answer), reader):
        return _from_list(cast(Iterable[Any], answer), reader, node, ids)
    return Answer(reader.read(answer, node, ids), None)


def _join(writes: Writes, written: Sequence[tuple[str, Any]]) -> Writes:
    """Return `writes` followed by `written`: as a dict if each channel is written once, otherwise as pairs."""
    if not written:
        return writes
    pairs = [*(writes.items() if isinstance(writes, dict) else writes), *written]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else pairs


def _from_command(command: Command[Any], reader: UpdateReader, node: str, ids: IdSource) -> Answer:
    if command.graph is not None:
        raise ParentCommand(command)
    if command.resumes:
        raise InvalidUpdateError(
            f"Node {node!r} returned Command(resume=...). Only the input of a run can answer questions; "
            f"return an update or a goto."
        )
    goto = command.goto
    goals = cast(Iterable[object], goto) if isinstance(goto, list | tuple | set | frozenset) else (goto,)
    targets = [_checked_target(target, node) for target in goals]
    writes = {} if command.update is None else reader.read(command.update, node, ids)
    return Answer(writes, targets or None)


def _from_list(parts: Iterable[Any], reader: UpdateReader, node: str, ids: IdSource) -> Answer:
    """Join the results of a list: their writes in order, and all their targets if any has one."""
    writes: list[tuple[str, Any]] = []
    targets: list[str | Send] | None = None
    parts = list(parts)
    if any(_is_for_parent(part) for part in parts):
        raise ParentCommand(*filter(_is_for_parent, parts))
    for index, part in enumerate(parts):
        answer = read_answer(part, reader, node, _Part(ids, index))
        writes.extend(answer.writes.items() if isinstance(answer.writes, dict) else answer.writes)
        if answer.targets is not None:
            targets = [*(targets or ()), *answer.targets]
    return Answer(writes, targets)


def _is_for_parent(part: Any) -> bool:
    return type(part) is Command and cast("Command[Any]", part).graph is not None


def _has_several_results(parts: Sequence[Any], reader: UpdateReader) -> bool:
    """Return whether a list contains several results, rather than being one update: messages, one value, or pairs."""
    if any(type(part) is Command or type(part) is Send for part in parts):
        return True
    if reader.takes_lists:
        return False
    return not parts or not all(isinstance(part, tuple) for part in parts)


def _checked_target(target: object, node: str) -> str | Send:
    if isinstance(target, str):
        return target if type(target) is str else str.__str__(target)  # a member of a StrEnum, for example
    if isinstance(target, Send):
        return target
    raise InvalidUpdateError(
        f"Node {node!r} returned goto={target!r} of type {type(target).__name__}. Name a node, or pass a Send."
    )
