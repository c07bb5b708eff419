"""The graph of a workflow of steps, as its callers see it: the plain input goes in, and the bare state comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from statewright.channels import Channel
from statewright.checkpoint import TaskResult
from statewright.graph import Graph
from statewright.runtime import CompiledGraph
from statewright.runtime.core.program import NodeProgram, Program
from statewright.state import UpdateReader
from statewright.workflow.steps.model import Definition
from statewright.workflow.steps.state import CHANNELS, InputReader, StateUpdates, state_of


class StepsProgram(Program):
    """Reads and shows the state as a map, instead of the channels in which it is kept."""

    begins_with_state = False

    def __init__(self, graph: Graph, **options: Any) -> None:
        super().__init__(graph, **options)
        self.reported = frozenset[
            str
        ]()  # a graph that calls this one gets the state, and never the channel of that name

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        return state_of(values)

    def shown(self, result: TaskResult) -> Any:
        written: dict[str, Any] = dict(result.writes)
        return written.get("state") or None

    def _update_reader(self, channels: Mapping[str, Channel], *, closed: bool, check: bool) -> UpdateReader:
        return StateUpdates({name: self.channels[name] for name in CHANNELS}, closed=True)

    def _start(self) -> NodeProgram:
        start = super()._start()
        start.updates = InputReader({name: self.channels[name] for name in CHANNELS}, closed=True)
        start.known_plain = None
        return start


class StepsGraph(CompiledGraph):
    """A workflow of steps that is ready to run. Made by `compile_steps`."""

    program_class: ClassVar[type[Program]] = StepsProgram

    def __init__(self, graph: Graph, definition: Definition, **options: Any) -> None:
        super().__init__(graph, **options)
        self.definition = definition

    def get_state_jsonschema(self) -> dict[str, Any]:
        """The JSON Schema of the state as it is shown: any map."""
        return {**self.get_output_jsonschema(), "title": f"{self.name}State"}
