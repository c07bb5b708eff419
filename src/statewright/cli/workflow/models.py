"""Models named on the command line: a default model, and models for particular assistants or agents.

API keys are only read from the environment. Models are connected before the run, so that errors are reported at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from statewright.cli.console.failure import UsageError, format_error
from statewright.errors import InvalidConfig, ModelError, suggestion
from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, stream_model
from statewright.project import Project
from statewright.workflow.states.language.model import Definition


@dataclass(frozen=True, slots=True)
class Models:
    """The values of `--model` and `--base-url`."""

    default: str | None = None
    """The name of the default model."""
    by_name: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of models, by the name of the assistant or agent that they are for."""
    base_url: str | None = None

    @property
    def args(self) -> tuple[str, ...]:
        """The options as command-line arguments, for a suggested command."""
        named_models = [f"{name}={model}" for name, model in self.by_name.items()]
        values = [*([self.default] if self.default is not None else []), *named_models]
        url = ("--base-url", self.base_url) if self.base_url is not None else ()
        return (*(arg for value in values for arg in ("--model", value)), *url)

    def connect(self, name: str, project: Project | None = None) -> ChatModel:
        """Connect a model by its name, which may be an alias defined in the project.

        Raises UsageError for an unknown provider, a missing API key or a missing library.
        """
        from statewright.models.providers import connect_model
        from statewright.workflow.states.resources.chat_models import ModelResolver

        try:
            if self.base_url is not None:
                return connect_model(name, base_url=self.base_url)
            resolver = (
                ModelResolver(project.models, project.defaults.provider) if project is not None else ModelResolver()
            )
            return resolver.connect(name)
        except (ModelError, InvalidConfig) as error:
            raise UsageError(format_error(error)) from error

    def check_names(self, names: Collection[str], noun: str) -> None:
        """Raise UsageError if a model is for an assistant or agent that does not exist.

        `noun` is the plural by which the message introduces the existing `names`: `Assistants` or `Agents`.
        """
        for name, model in self.by_name.items():
            if name not in names:
                hint = suggestion(name, names, noun=noun)
                raise UsageError(f"--model {name}={model}: {name!r} does not exist. {hint}")


NO_MODELS: Final = Models()


def read_models(values: Sequence[str] | None, base_url: str | None) -> Models:
    """Parse the options. Raises UsageError for two models for the same name, and for a URL without a model."""
    if base_url is not None and not values:
        raise UsageError("--base-url requires a model. Pass --model MODEL too.")
    default: str | None = None
    by_name: dict[str, str] = {}
    for value in values or ():
        name, equals, model = value.partition("=")
        is_named = bool(equals) and ":" not in name  # the `=` may be part of a model name, after the provider
        if not (model if is_named else value).strip() or (is_named and not name):
            raise UsageError(f"--model {value!r} does not name a model. Use PROVIDER:MODEL, or NAME=PROVIDER:MODEL.")
        if is_named and by_name.setdefault(name, model) != model:
            raise UsageError(f"--model names two models for {name!r}. Name only one.")
        if not is_named and (default or value) != value:
            raise UsageError(f"--model names two default models, {default!r} and {value!r}. Name only one.")
        default = default if is_named else value
    return Models(default, by_name, base_url)


class PinnedModel:
    """A model that ignores the model name in requests, so that the command line overrides the file."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = getattr(model, "name", type(model).__name__)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._model.complete(replace(request, model=None))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return stream_model(self._model, replace(request, model=None))


def connect_assistant_models(
    definition: Definition, project: Project, models: Models
) -> Mapping[str, ChatModel] | None:
    """Connect the models of the command line, by assistant or as `default`; return None if there are none.

    They override the models in the file. Raises UsageError for a model that cannot be connected, and for an unknown
    assistant.
    """
    models.check_names([assistant.id for assistant in definition.assistants], "Assistants")
    names = {**({"default": models.default} if models.default is not None else {}), **models.by_name}
    return {name: PinnedModel(models.connect(model, project)) for name, model in names.items()} or None
