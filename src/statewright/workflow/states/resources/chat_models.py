"""Resolution of model names: models passed to `compile` come first, then those of the project, then those of providers.

A model that a file names is connected on first use, so that a workflow can be drawn, checked and run from a script
without API keys.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, as_chat_model, stream_model
from statewright.workflow.states.tools import read_variable

Models = ChatModel | str | Mapping[str, Any]
"""One model for all assistants, or models by assistant id or model name, with `default` for all others. A model is a
chat model, a LangChain model, or a name such as `openai:gpt-5`."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that a project defines under its own name."""

    name: str
    """The provider and its name of the model, such as `openai-chat:llama3.3`."""
    base_url: str | None = None
    api_key: str | None = None
    """The key as written in the file, usually `env:NAME`."""
    timeout: float | None = None
    """Seconds per call."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The settings of each request, such as `temperature`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of each request. Values may be `env:NAME`."""


class NamedModel:
    """A model that was resolved by name, and is connected on first use.

    The name is removed from requests, since the provider may use another name for the model.
    """

    def __init__(self, name: str, connect: Callable[[], ChatModel]) -> None:
        self.name = name
        self._connect = connect

    @cached_property
    def model(self) -> ChatModel:
        """The connected model. Raises MissingApiKey, or ModelError if it cannot be connected."""
        return self._connect()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(replace(request, model=None))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return stream_model(self.model, replace(request, model=None))

    def __repr__(self) -> str:
        return f"NamedModel({self.name!r})"


class ModelNames:
    """Resolves the names of models for one project."""

    def __init__(self, sources: Mapping[str, ModelSource] | None = None, provider: str | None = None) -> None:
        self._sources = sources or {}
        self._provider = provider
        """The default provider, for names without one."""
        self._models: dict[str, NamedModel] = {}

    def find(self, name: str | None) -> NamedModel | None:
        """Return the model with a name, the same object each time; None for an unknown name without a provider."""
        if name and not self.is_qualified(name):
            name = f"{self._provider}:{name}" if self._provider else None
        if not name:
            return None
        if name not in self._models:
            self._models[name] = NamedModel(name, partial(self._connect_by_name, name))
        return self._models[name]

    def connect(self, value: object) -> ChatModel:
        """Connect a model that was passed to `compile`. Raises InvalidConfig, ModelError and MissingApiKey."""
        model = self.find(value) if isinstance(value, str) else None
        return model.model if model is not None else as_chat_model(value)

    def is_qualified(self, name: str) -> bool:
        """Return whether a name contains a provider, or is that of a model of the project."""
        return name in self._sources or ":" in name

    def _connect_by_name(self, name: str) -> ChatModel:
        source = self._sources.get(name)
        if source is None:
            return as_chat_model(name)
        from statewright.models.providers import connect_model  # imports libraries that most workflows do not need

        def resolve(key: str, value: str) -> str:
            variable = read_variable(value, f"Model {name!r} of statewright.toml takes {key}")
            return value if variable is None else variable

        return connect_model(
            source.name,
            base_url=source.base_url,
            api_key=resolve("api_key", source.api_key) if source.api_key is not None else None,
            timeout=source.timeout,
            settings=source.settings,
            http_headers={key: resolve(f"headers.{key}", value) for key, value in source.headers.items()},
        )


class WorkflowModels:
    """The models of one compiled workflow."""

    def __init__(self, models: Models | None, names: ModelNames, default_name: str | None) -> None:
        """Connect the models passed to `compile`. `default_name` is the default model of the project."""
        self._names = names
        self._default_name = default_name
        self._default: ChatModel | None = None
        self._by_name: dict[str, ChatModel] = {}
        if isinstance(models, Mapping):
            self._by_name = {name: _without_name(name, names.connect(model)) for name, model in models.items()}
        elif models is not None:
            self._default = names.connect(models)

    @property
    def passed_names(self) -> tuple[str, ...]:
        """The names of the models that were passed to `compile`."""
        return tuple(self._by_name)

    def find(self, name: str | None, *, owner: str | None = None) -> ChatModel | None:
        """Return the model with a name, for the assistant with the id `owner`; None if there is none.

        Models passed to `compile` come first, then those of files, then the default model of the project.
        """
        for key in (owner, name):
            if key in self._by_name:
                return self._by_name[key]
        default_model = self._default or self._by_name.get("default")
        if default_model is None:
            return self._names.find(name) or self._names.find(self._default_name)
        # The default model may offer several models by unqualified names, so requests keep such a name. A qualified
        # name is that of another model, which the default one replaces, so it is removed from requests.
        return NamedModel(name, lambda: default_model) if name and self._names.is_qualified(name) else default_model


def _without_name(name: str, model: ChatModel) -> ChatModel:
    """Wrap a model so that requests contain no model name. The model `default` needs the name to choose a model."""
    return model if name == "default" else NamedModel(name, lambda: model)
