"""Resolution of model names: the models of the workflow, then providers recognized by the prefix of a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from statewright.models import ChatModel, as_chat_model
from statewright.models.coerce import is_langchain_model

ModelsGiven = Mapping[str, Any] | Callable[[str], Any] | ChatModel | str | None
"""Models by the names that steps use, with `default` for the others; a function from a name to a model or None; or one
model for all steps. A model is a chat model, a LangChain model, or a name with its provider."""
_PROVIDERS: Final = {"gpt-": "openai", "o1-": "openai", "o3-": "openai", "o4-": "openai", "claude-": "anthropic"}
"""Providers by the prefix of their model names."""


class StepModels:
    """Resolves the models that steps name. Models of providers are connected on demand."""

    def __init__(self, models: ModelsGiven = None) -> None:
        self._find = _make_finder(models)

    def has(self, name: str) -> bool:
        """Return whether a name is known. The model may still fail to connect."""
        return self._find(name) is not None

    def find(self, name: str) -> ChatModel | None:
        """Return the model of a name; None for an unknown name.

        Raises MissingApiKey or ModelError if it cannot be connected, and InvalidConfig if the object is not a model.
        """
        model = self._find(name)
        return as_chat_model(model) if model is not None else None


def _make_finder(models: ModelsGiven) -> Callable[[str], Any]:
    if models is None:
        return qualify_model_name
    if isinstance(models, Mapping):
        by_name = cast("Mapping[str, Any]", models)
        return lambda name: by_name.get(name) or by_name.get("default") or qualify_model_name(name)
    if isinstance(models, str | ChatModel) or is_langchain_model(models) or not callable(models):
        return lambda _: models
    return models


def qualify_model_name(name: str) -> str | None:
    """Return the name of a model with its provider; None if the provider is not recognized."""
    if ":" in name:
        return name
    provider = next((provider for prefix, provider in _PROVIDERS.items() if name.startswith(prefix)), None)
    return f"{provider}:{name}" if provider is not None else None
