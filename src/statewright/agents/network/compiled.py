"""Compiled networks: their state is an open schema, but not every key is a field of it.

The data of a network may have any fields, so the schema of its graph is open. The fields of the data have a prefix,
though, and any other key is a mistake. The nodes of a network refuse such a state; `NetworkUpdates` finds the mistake
in an input or an update before it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from statewright.agents.network.state import unknown_field_problems
from statewright.channels import Channel
from statewright.runtime import CompiledGraph, StateGraph
from statewright.runtime.core.program import Program
from statewright.state import UpdateReader


class NetworkUpdates(UpdateReader):
    """Converts updates of the state of a network to writes."""

    def _problems_of_keys(self, mapping: Mapping[str, Any], node: str | None) -> dict[str, str]:
        return unknown_field_problems(mapping)


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
