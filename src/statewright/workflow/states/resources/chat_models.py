"""Resolution of the models of a workflow by name: models passed to `compile`, then the project's, then providers'.

Models passed to `compile` take precedence over files. A name in a file is connected on first use, so a workflow can be
drawn, checked and run from a script without any API key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, as_chat_model, stream_model
from statewright.workflow.states.tools import read_variable

Models = ChatModel | str | Mapping[str, Any]
"""One model for all assistants, or models by assistant ids or model names, with `default` for the others. A model is a
chat model, a LangChain model, or a name."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that a project defines under a name of its own."""

    name: str
    """With its provider, as in `openai-chat:llama3.3`."""
    base_url: str | None = None
    api_key: str | None = None
    """As written in the file, usually `env:NAME`."""
    timeout: float | None = None
    """Seconds per call."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of each request, such as `temperature`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request; values may be `env:NAME`."""


class NamedModel:
    """A model resolved by name, connected on first use.

    The name is removed from requests, as the provider may know the model under another one.
    """

    def __init__(self, name: str, connect: Callable[[], ChatModel]) -> None:
        self.name = name
        self._connect = connect

    @cached_property
    def model(self) -> ChatModel:
        """The connected model. Raises MissingApiKey, and ModelError if it cannot be connected."""
        return self._connect()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(replace(request, model=None))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return stream_model(self.model, replace(request, model=None))

    def __repr__(self) -> str:
        return f"NamedModel({self.name!r})"


class ModelNames:
    """Resolves model names in one project."""

    def __init__(self, sources: Mapping[str, ModelSource] | None = None, provider: str | None = None) -> None:
        self._sources = sources or {}
        self._provider = provider
        """The provider of model names without one."""
        self._models: dict[str, NamedModel] = {}

    def find(self, name: str | None) -> NamedModel | None:
        """Return the model of a name, the same for repeated calls; None for an unknown name without a provider."""
        if name and not self.is_qualified(name):
            name = f"{self._provider}:{name}" if self._provider else None
        if not name:
            return None
        if name not in self._models:
            self._models[name] = NamedModel(name, partial(self._connect_by_name, name))
        return self._models[name]

    def connect(self, value: object) -> ChatModel:
        """Connect a model that was passed to `compile`. Raises InvalidConfig, ModelError and MissingApiKey."""
        if not isinstance(value, str):
            return as_chat_model(value)
        model = self.find(value)
        return model.model if model is not None else as_chat_model(value)

    def is_qualified(self, name: str) -> bool:
        """Return whether a name identifies its provider or a model of the project."""
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
        """Resolve the models passed to `compile`; `default_name` names the default model of the project."""
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
        """Return the model of a name for the assistant `owner`; None if there is none.

        Models passed to `compile` come first, then those of files, then the default model.
        """
        for key in (owner, name):
            if key in self._by_name:
                return self._by_name[key]
        default_model = self._default or self._by_name.get("default")
        if default_model is None:
            return self._names.find(name) or self._names.find(self._default_name)
        # A model passed to `compile` may know a name without a provider; a name with one belongs to another model.
        return NamedModel(name, lambda: default_model) if name and self._names.is_qualified(name) else default_model


def _without_name(name: str, model: ChatModel) -> ChatModel:
    """Wrap a model so that requests carry no model name; `default` keeps it, to choose among its own models."""
    return model if name == "default" else NamedModel(name, lambda: model)
