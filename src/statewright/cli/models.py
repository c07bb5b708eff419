"""The models that a command line names: one for everybody, others for single assistants and agents.

Keys stand in the environment, and nowhere else. What cannot be connected is found out before anything is run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from statewright.cli.failure import WrongUse, told
from statewright.errors import InvalidConfig, ModelError, suggestion

if TYPE_CHECKING:
    from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse
    from statewright.project import Project


@dataclass(frozen=True, slots=True)
class Models:
    """What `--model` and `--base-url` say."""

    everybody: str | None = None
    by_name: Mapping[str, str] = field(default_factory=dict[str, str])
    """The models of single assistants or agents."""
    base_url: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The options as they are written."""
        for_one = [f"{name}={model}" for name, model in self.by_name.items()]
        named = [*([self.everybody] if self.everybody is not None else []), *for_one]
        url = ("--base-url", self.base_url) if self.base_url is not None else ()
        return (*(word for one in named for word in ("--model", one)), *url)

    def connect(self, name: str, project: Project | None = None) -> ChatModel:
        """A model by its name, be it one of a provider or of the project.

        Raises WrongUse where there is no such provider, no key, or no library.
        """
        from statewright.models.providers import connect_model
        from statewright.workflow.states.resources.chat_models import ModelNames

        try:
            if self.base_url is not None:
                return connect_model(name, base_url=self.base_url)
            names = ModelNames(project.models, project.defaults.provider) if project is not None else ModelNames()
            return names.given(name)
        except (ModelError, InvalidConfig) as error:
            raise WrongUse(told(error)) from error

    def check_names(self, known: Collection[str], noun: str) -> None:
        """Raise WrongUse for a model that is meant for somebody who does not exist."""
        for name in self.by_name:
            if name not in known:
                hint = suggestion(name, known, noun=noun)
                raise WrongUse(f"--model {name}={self.by_name[name]} is used by nobody. {hint}")


NO_MODELS: Final = Models()


def read_models(given: Sequence[str] | None, base_url: str | None) -> Models:
    """What the options say. Raises WrongUse for two models of one, and for an address without a model."""
    if base_url is not None and not given:
        raise WrongUse("--base-url is the address of a model, and no model is named. Give --model MODEL too.")
    everybody: str | None = None
    by_name: dict[str, str] = {}
    for one in given or ():
        name, equals, model = one.partition("=")
        is_for_one = bool(equals) and ":" not in name
        if not (model if is_for_one else one).strip() or (is_for_one and not name):
            raise WrongUse(f"--model {one!r} names no model. Give PROVIDER:MODEL, or NAME=PROVIDER:MODEL.")
        if is_for_one and by_name.setdefault(name, model) != model:
            raise WrongUse(f"--model gives {name!r} two models. Give it one.")
        if not is_for_one and (everybody or one) != one:
            raise WrongUse(f"--model names two models for everybody, {everybody!r} and {one!r}. Give one.")
        everybody = everybody if is_for_one else one
    return Models(everybody, by_name, base_url)


class PinnedModel:
    """A model that answers whatever model a request names: the command line counts more than the file."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = getattr(model, "name", type(model).__name__)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._model.complete(replace(request, model=None))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        from statewright.models import stream_model

        return stream_model(self._model, replace(request, model=None))
