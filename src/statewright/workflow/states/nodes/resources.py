"""Resources of custom nodes: models, data sources and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from statewright.errors import InvalidConfig, ModelError, suggestion
from statewright.models import ChatModel


class DataSource(Protocol):
    """A folder of documents."""

    @property
    def folder(self) -> Path: ...

    @property
    def glob(self) -> str:
        """The pattern of the paths below the folder that are included."""
        ...


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits for one execution of a custom node."""

    documents: int = 10_000
    """Maximum documents in the list."""
    files: int = 200_000
    """Maximum files that are visited to find the documents."""
    document_bytes: int = 1_000_000
    """Maximum bytes of one document's content. Longer content is truncated."""
    content_bytes: int = 20_000_000
    """Maximum bytes of the contents of all documents together."""
    questions: int = 1000
    """Maximum model calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeResources:
    """The resources that the handler of one state may use."""

    state_id: str
    """The id of the state, for errors about missing resources."""
    find_model: Callable[[str | None], ChatModel | None] = lambda name: None
    """Returns the model with a name, or the default model if the name is None. Returns None if there is no model."""
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    limits: NodeLimits = NodeLimits()

    def model(self, name: str | None = None) -> ChatModel:
        """Return the model with a name, or the default model. Raises ModelError."""
        model = self.find_model(name)
        if model is None:
            missing = f"the model {name!r}, which is not configured" if name else "a model, but none is configured"
            raise ModelError(
                f"State {self.state_id!r} needs {missing}. Compile with models=, or add the output of the state to a "
                f"script."
            )
        return model

    def datasource(self, datasource_id: str) -> DataSource:
        """Return a data source. Raises InvalidConfig with the lines to add to the project's file."""
        source = self.datasources.get(datasource_id)
        if source is None:
            hint = suggestion(datasource_id, self.datasources, noun="Data sources")
            raise InvalidConfig(
                f"State {self.state_id!r} reads the data source {datasource_id!r}, which does not exist. {hint} Add "
                f'to statewright.toml: [datasources.{datasource_id}] with folder = "documents" and glob = "**/*.md".'
            )
        return source
