"""The current names of renamed nodes in a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statewright.graph import Send
from statewright.runtime.core.program import HANDLER_SUFFIX, Program


class Renames:
    """The current names of the nodes in a recording, by the aliases of nodes."""

    def __init__(self, program: Program) -> None:
        nodes = {alias: node.name for node in program.graph.nodes.values() for alias in node.aliases}
        handlers = {alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in nodes.items()}
        self._names: Mapping[str, str] = {**nodes, **handlers}

    def node(self, name: str) -> str:
        return self._names.get(name, name)

    def tasks(self, tasks: Sequence[list[Any]]) -> list[list[Any]]:
        return [[self.node(name), *rest] for name, *rest in tasks]

    def joins(self, joins: Sequence[list[Any]]) -> list[list[Any]]:
        return [
            [[*map(self.node, starts)], self.node(end), sorted(map(self.node, arrived))]
            for starts, end, arrived in joins
        ]

    def target(self, target: Any) -> Any:
        if isinstance(target, Send):
            return Send(self.node(target.node), target.arg, gather=target.gather, timeout=target.timeout)
        return self.node(target)
