"""What a custom node may use beside its call: models, data sources, and how much of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from statewright.agents import ask
from statewright.errors import InvalidConfig, ModelError, suggestion
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.model import CustomNode


class DataSource(Protocol):
    """A folder of documents."""

    @property
    def folder(self) -> Path: ...

    @property
    def glob(self) -> str:
        """Which files of it count, below the folder."""
        ...


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """How much a node may read and ask."""

    documents: int = 10_000
    """That one node lists."""
    files: int = 200_000
    """That are looked at to find them."""
    document_bytes: int = 1_000_000
    """Of one document's content; what is longer is cut."""
    content_bytes: int = 20_000_000
    """Of all contents together."""
    questions: int = 1000
    """To models, in one execution of a state."""


def _no_model(name: str | None) -> ChatModel | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeResources:
    """What is there for one state."""

    state_id: str
    """Named when something is missing."""
    find_model: Callable[[str | None], ChatModel | None] = _no_model
    """The model of a name, or without a name the usual one; None if there is none."""
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    limits: NodeLimits = NodeLimits()

    def model(self, name: str | None = None) -> ChatModel:
        """The model of a name, or the usual one. Raises ModelError that names the state."""
        found = self.find_model(name)
        if found is None:
            called = f"the model {name!r}" if name is not None else "a model"
            raise ModelError(
                f"State {self.state_id!r} needs {called}, and there is none. Compile with models=, or give its output "
                f"in a script."
            )
        return found

    def datasource(self, datasource_id: str) -> DataSource:
        """A data source. Raises InvalidConfig that shows what to add."""
        found = self.datasources.get(datasource_id)
        if found is None:
            known = suggestion(datasource_id, self.datasources, noun="Data sources")
            raise InvalidConfig(
                f"State {self.state_id!r} reads the data source {datasource_id!r}, which is nowhere. {known} Add to "
                f'statewright.toml: [datasources.{datasource_id}] with folder = "documents" and glob = "**/*.md".'
            )
        return found


# -- Models asked by custom nodes.


async def ask_model(
    model: ChatModel,
    definition: CustomNode,
    call: Call,
    messages: Sequence[Message],
    *,
    usual: str,
    position: int = 0,
) -> str:
    """The answer of a model to messages; `usual` are the instructions of a node that has none of its own.

    `position` tells the questions of one execution from each other. What was used up counts against the budget of the
    run. Raises ModelError.
    """
    request = ModelRequest(
        messages=tuple(messages),
        system=definition.system_prompt or usual,
        model=definition.model,
        metadata={"state": call.state.id, "call": call},
    )
    return (await ask(model, request, call.runtime, name=call.state.id, position=position)).text
