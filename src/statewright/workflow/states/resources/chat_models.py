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
"""One model for all assistants, or models by assistant id or model name. The key `default` in a mapping is for all
other assistants. A model is a chat model, a LangChain model, or a name such as `openai:gpt-5`."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that a project defines under its own name."""

    name: str
    """The provider, and the provider's name for the model, such as `openai-chat:llama3.3`."""
    base_url: str | None = None
    api_key: str | None = None
    """The key as written in the file, usually `env:NAME`."""
    timeout: float | None = None
    """Seconds per call."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings for each request, such as `temperature`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers for each request. Values may be `env:NAME`."""


class NamedModel:
    """A model that was found by its name, and is connected on first use.

    The name is removed from requests, because the provider may use another name for the model.
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


class ModelResolver:
    """Finds the models of one project, and of providers, by their names."""

    def __init__(self, sources: Mapping[str, ModelSource] | None = None, provider: str | None = None) -> None:
        self._sources = sources or {}
        self._provider = provider
        """The default provider, for names that contain no provider."""
        self._models: dict[str, NamedModel] = {}

    def find(self, name: str | None) -> NamedModel | None:
        """Return the model with a name, which is the same object each time.

        Returns None if the project does not define the name, and no provider is known for it.
        """
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
        """Return whether a name contains a provider, or is the name of a model that the project defines."""
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

    def __init__(self, models: Models | None, resolver: ModelResolver, default_name: str | None) -> None:
        """Connect the models passed to `compile`. `default_name` is the default model of the project."""
        self._resolver = resolver
        self._default_name = default_name
        self._default: ChatModel | None = None
        self._by_name: dict[str, ChatModel] = {}
        if isinstance(models, Mapping):
            self._by_name = {name: _without_name(name, resolver.connect(model)) for name, model in models.items()}
        elif models is not None:
            self._default = resolver.connect(models)

    @property
    def passed_names(self) -> tuple[str, ...]:
        """The names of the models that were passed to `compile`."""
        return tuple(self._by_name)

    def find(self, name: str | None, *, owner: str | None = None) -> ChatModel | None:
        """Return the model with a name, for the assistant with the id `owner`; None if there is no model.

        Models that were passed to `compile` come first, then models of the project and of providers, then the default
        model of the project.
        """
        for key in (owner, name):
            if key in self._by_name:
                return self._by_name[key]
        default_model = self._default or self._by_name.get("default")
        if default_model is None:
            return self._resolver.find(name) or self._resolver.find(self._default_name)
        # Requests keep an unqualified name, because the default model may use it to choose among several models. A
        # qualified name refers to another model, which the default model replaces, so it is removed from requests.
        return NamedModel(name, lambda: default_model) if name and self._resolver.is_qualified(name) else default_model


def _without_name(name: str, model: ChatModel) -> ChatModel:
    """Wrap a model so that requests contain no model name, except the model `default`, which may use it to choose."""
    return model if name == "default" else NamedModel(name, lambda: model)
