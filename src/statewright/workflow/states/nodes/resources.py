"""Resources of custom nodes besides their call: models, data sources, and limits."""

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
        """The files below the folder that are included."""
        ...


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits of one node."""

    documents: int = 10_000
    """Maximum documents in a list."""
    files: int = 200_000
    """Maximum files that are visited to find them."""
    document_bytes: int = 1_000_000
    """Maximum bytes of one document's content, which is truncated."""
    content_bytes: int = 20_000_000
    """Maximum bytes of all contents together."""
    questions: int = 1000
    """Maximum model calls in one execution of a state."""


def _no_model(name: str | None) -> ChatModel | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeResources:
    """The resources of one state."""

    state_id: str
    """Named in errors about missing resources."""
    find_model: Callable[[str | None], ChatModel | None] = _no_model
    """Returns the model of a name, or the default model for None; None if there is none."""
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    limits: NodeLimits = NodeLimits()

    def model(self, name: str | None = None) -> ChatModel:
        """Return the model of a name, or the default model. Raises ModelError."""
        model = self.find_model(name)
        if model is None:
            called = f"the model {name!r}" if name is not None else "a model"
            raise ModelError(
                f"State {self.state_id!r} needs {called}, and none is configured. Compile with models=, or add its "
                f"output to a script."
            )
        return model

    def datasource(self, datasource_id: str) -> DataSource:
        """Return a data source. Raises InvalidConfig that shows what to add."""
        source = self.datasources.get(datasource_id)
        if source is None:
            hint = suggestion(datasource_id, self.datasources, noun="Data sources")
            raise InvalidConfig(
                f"State {self.state_id!r} reads the data source {datasource_id!r}, which does not exist. {hint} Add "
                f'to statewright.toml: [datasources.{datasource_id}] with folder = "documents" and glob = "**/*.md".'
            )
        return source


# -- model calls


async def ask_model(
    model: ChatModel,
    definition: CustomNode,
    call: Call,
    messages: Sequence[Message],
    *,
    instructions: str,
    position: int = 0,
) -> str:
    """Return the answer of a model; `instructions` are used unless the node has its own.

    `position` distinguishes the requests of one execution. Usage is charged to the budget of the run. Raises
    ModelError.
    """
    request = ModelRequest(
        messages=tuple(messages),
        system=definition.system_prompt or instructions,
        model=definition.model,
        metadata={"state": call.state.id, "call": call},
    )
    return (await ask(model, request, call.runtime, name=call.state.id, position=position)).text
