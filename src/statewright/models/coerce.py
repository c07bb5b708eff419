"""Convert model instances, LangChain models and model names to chat models."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Final, cast

from statewright.errors import InvalidConfig
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.port import ChatModel

_CONNECTION_VARIABLES: Final = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_TOKEN")
_EXPECTED: Final = (
    "Give a ChatModel, a LangChain chat model, or the name of a model with its provider, e.g. 'openai:gpt-5'."
)


def as_chat_model(value: object) -> ChatModel:
    """The chat model that `value` means.

    A ChatModel is given back as it is, a LangChain model is wrapped, and a name like `openai:gpt-5` is connected to by
    `statewright.models.providers`. Raises InvalidConfig for anything else.
    """
    if isinstance(value, type):
        raise InvalidConfig(f"The model is the class {value.__name__} and no instance of it. {_EXPECTED}")
    if isinstance(value, ChatModel):
        return value
    if isinstance(value, str):
        return _connect(value)
    if is_langchain_model(value):
        return LangChainModel(value)
    raise InvalidConfig(f"The model is {value!r} of type {type(value).__name__}. {_EXPECTED}")


def is_langchain_model(value: object) -> bool:
    """Whether a value is a chat model of LangChain, told by its classes so that the package need not be loaded."""
    kinds = cast("tuple[type[Any], ...]", type(value).__mro__)
    return any(kind.__name__ == "BaseChatModel" and kind.__module__.startswith("langchain_core.") for kind in kinds)


def _connect(name: str) -> ChatModel:
    if not name.strip():
        raise InvalidConfig(f"The name of the model is empty. {_EXPECTED}")
    told = {key: value for key, value in os.environ.items() if key.endswith(_CONNECTION_VARIABLES)}
    return _connection(name, frozenset(told.items()))


@lru_cache(maxsize=64)
def _connection(name: str, environment: frozenset[tuple[str, str]]) -> ChatModel:
    """One connection for all who give the same name under the same keys: each costs 20 ms and a client."""
    from statewright.models.providers import connect_model  # it needs libraries that this module does not

    return connect_model(name)
