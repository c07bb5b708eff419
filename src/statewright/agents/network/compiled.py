"""Compiled networks: their state is an open schema, but not every key is a field of it.

The data of a network may have any fields, unless a class declares them, so the schema of its graph is open. The fields
of the data have a prefix, though, and any other key is a mistake, as is a field that the class does not declare.
`NetworkUpdates` refuses such an input or update before it is stored. States that are stored already are not checked, so
that a thread can be continued after a field was removed from the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from statewright.agents.network.state import unknown_field_problems
from statewright.agents.state.data import PREFIX
from statewright.channels import Channel
from statewright.runtime import CompiledGraph, StateGraph
from statewright.runtime.core.program import Program
from statewright.state import IdSource, UpdateReader


class NetworkUpdates(UpdateReader):
    """Converts updates of the state of a network to writes, and refuses those with unknown fields."""

    def __init__(self, channels: Mapping[str, Channel], **options: Any) -> None:
        super().__init__(channels, **options)
        self._data_fields = [name for name in channels if name.startswith(PREFIX)]

    def read_fields(self, mapping: dict[str, Any], node: str, ids: IdSource) -> dict[str, Any]:
        problem = next(iter(self._problems_of_keys(mapping, node).values()), None)
        if problem is not None:
            raise self._refuse(problem)
        return super().read_fields(mapping, node, ids)

    def _problems_of_keys(self, mapping: Mapping[str, Any], node: str | None) -> dict[str, str]:
        return unknown_field_problems(mapping, self._data_fields)


class NetworkProgram(Program):
    """The program of a network."""

    def _update_reader(self, channels: Mapping[str, Channel], *, closed: bool, check: bool) -> UpdateReader:
        return NetworkUpdates(
            channels, closed=closed, unknown_keys=self.unknown_keys, check=self._checks.check if check else None
        )


class NetworkGraph(CompiledGraph):
    """A compiled network."""

    program_class: ClassVar[type[Program]] = NetworkProgram


class NetworkStateGraph(StateGraph):
    """The graph of a network, before it is compiled."""

    _compiled_class: ClassVar[type[CompiledGraph]] = NetworkGraph
