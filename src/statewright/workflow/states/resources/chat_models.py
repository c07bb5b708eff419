"""The models of a workflow by their names: those that it is compiled with, those of its project, those of providers.

What is given to `compile` counts before everything that files say. A name in a file is connected when its model is
wanted, so a workflow can be drawn, checked and run from a script without any key.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from statewright.errors import MissingKey
from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, as_chat_model, stream_model
from statewright.workflow.states.tools import FROM_ENVIRONMENT

Models = ChatModel | str | Mapping[str, Any]
"""One for all assistants, or one by the id of an assistant or the name of a model; `default` for the others. Each is a
chat model, one of LangChain, or the name of one."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that a project knows under a name of its own."""

    name: str
    """With its provider, as in `openai-chat:llama3.3`."""
    base_url: str | None = None
    api_key: str | None = None
    """As it is written: `env:NAME`, most of the time."""
    timeout: float | None = None
    """Seconds for one call."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of each request, such as `temperature`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request; values may be `env:NAME`."""


class NamedModel:
    """A model that was found by a name, connected when it is first asked.

    The name has done its work then: it is not sent, as the provider may know the model by another one.
    """

    def __init__(self, name: str, connect: Callable[[], ChatModel]) -> None:
        self.name = name
        self._connect = connect

    @cached_property
    def model(self) -> ChatModel:
        """The model itself. Raises MissingKey, and ModelError for what cannot be connected."""
        return self._connect()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(replace(request, model=None))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return stream_model(self.model, replace(request, model=None))

    def __repr__(self) -> str:
        return f"NamedModel({self.name!r})"


class ModelNames:
    """What names of models mean in one project."""

    def __init__(self, sources: Mapping[str, ModelSource] | None = None, provider: str | None = None) -> None:
        self._sources = sources or {}
        self._provider = provider
        """Asked for models that are named without one."""
        self._found: dict[str, NamedModel] = {}

    def find(self, name: str | None) -> NamedModel | None:
        """The model of a name; None for a bare name that nobody knows. The same name gives the same model."""
        if not name:
            return None
        whole = self._whole(name)
        if whole is None:
            return None
        if whole not in self._found:
            self._found[whole] = NamedModel(whole, lambda: self._connected(whole))
        return self._found[whole]

    def given(self, value: object) -> ChatModel:
        """What was given to `compile` as a model: connected now. Raises InvalidConfig, ModelError and MissingKey."""
        if not isinstance(value, str):
            return as_chat_model(value)
        found = self.find(value)
        return found.model if found is not None else as_chat_model(value)

    def is_whole(self, name: str) -> bool:
        """Whether a name says by itself where its model is."""
        return name in self._sources or ":" in name

    def _whole(self, name: str) -> str | None:
        if self.is_whole(name):
            return name
        return f"{self._provider}:{name}" if self._provider else None

    def _connected(self, name: str) -> ChatModel:
        source = self._sources.get(name)
        if source is None:
            return as_chat_model(name)
        from statewright.models.providers import connect_model  # needs libraries that most workflows do not

        return connect_model(
            source.name,
            base_url=source.base_url,
            api_key=_value(name, "api_key", source.api_key) if source.api_key is not None else None,
            timeout=source.timeout,
            settings=source.settings,
            http_headers={key: _value(name, f"headers.{key}", one) for key, one in source.headers.items()},
        )


def _value(model: str, where: str, written: str) -> str:
    if not written.startswith(FROM_ENVIRONMENT):
        return written
    variable = written[len(FROM_ENVIRONMENT) :]
    found = os.environ.get(variable)
    if not found:
        raise MissingKey(
            f"Model {model!r} of statewright.toml takes {where} from the environment variable {variable}, which is not "
            f"set. Set it where Statewright runs."
        )
    return found


class WorkflowModels:
    """Who answers for whom in one compiled workflow."""

    def __init__(self, given: Models | None, names: ModelNames, usual: str | None) -> None:
        """`usual` is the model of the project for those that name none."""
        self._names = names
        self._usual = usual
        self._everybody: ChatModel | None = None
        self._by_name: dict[str, ChatModel] = {}
        if isinstance(given, Mapping):
            self._by_name = {name: _named(name, names.given(model)) for name, model in given.items()}
        elif given is not None:
            self._everybody = names.given(given)

    @property
    def known(self) -> tuple[str, ...]:
        """The names for which models were given."""
        return tuple(self._by_name)

    def find(self, name: str | None, *, owner: str | None = None) -> ChatModel | None:
        """The model of a name, for an assistant with the id `owner`; None if there is none at all.

        Looked for in what was given, then in files; the usual one answers for those whom nobody knows.
        """
        named = next((self._by_name[one] for one in (owner, name) if one and one in self._by_name), None)
        if named is not None:
            return named
        given = self._everybody or self._by_name.get("default")
        if given is None:
            return self._names.find(name) or self._names.find(self._usual)
        # A bare name may be one that the given model knows; one with a provider is of somebody else.
        return NamedModel(name, lambda: given) if name and self._names.is_whole(name) else given


def _named(name: str, model: ChatModel) -> ChatModel:
    """A model that answers to a name; one that stands under `default` is told which one is wanted."""
    return model if name == "default" else NamedModel(name, lambda: model)
