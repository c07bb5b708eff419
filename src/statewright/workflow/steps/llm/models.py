"""The models that steps name: those that were given, and those of providers that are known by how the name begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from statewright.models import ChatModel, as_chat_model
from statewright.models.coerce import is_langchain_model

ModelsGiven = Mapping[str, Any] | Callable[[str], Any] | ChatModel | str | None
"""Models by the names that steps use, `default` for the others; a function that finds one by its name, or None for
none; or one model for all. Each is a chat model, one of LangChain, or the name of one with its provider."""
_PROVIDERS: Final = {"gpt-": "openai", "o1-": "openai", "o3-": "openai", "o4-": "openai", "claude-": "anthropic"}
"""By the beginning of the names of their models."""


class StepModels:
    """Finds the model that a step names. What is found by the name of a provider is connected when it is asked for."""

    def __init__(self, given: ModelsGiven = None) -> None:
        self._find = _finder(given)

    def knows(self, name: str) -> bool:
        """Whether somebody would be asked under a name; whether it can be connected is another question."""
        return self._find(name) is not None

    def find(self, name: str) -> ChatModel | None:
        """The model of a name; None for one that nobody knows.

        Raises MissingKey and ModelError for one that cannot be connected, InvalidConfig for what is no model.
        """
        found = self._find(name)
        return as_chat_model(found) if found is not None else None


def _finder(given: ModelsGiven) -> Callable[[str], Any]:
    if given is None:
        return whole_name
    if isinstance(given, Mapping):
        by_name = cast("Mapping[str, Any]", given)
        return lambda name: by_name.get(name) or by_name.get("default") or whole_name(name)
    if isinstance(given, str | ChatModel) or is_langchain_model(given) or not callable(given):
        return lambda _: given
    return given


def whole_name(name: str) -> str | None:
    """The name of a model with its provider; None if the name does not say whose it is."""
    if ":" in name:
        return name
    provider = next((one for begin, one in _PROVIDERS.items() if name.startswith(begin)), None)
    return f"{provider}:{name}" if provider is not None else None
