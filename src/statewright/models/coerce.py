"""Convert LangChain models and model names to chat models."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Final, cast

from statewright.errors import InvalidConfig
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.port import ChatModel

_CONNECTION_VARIABLES: Final = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_TOKEN")
"""The suffixes of the names of environment variables on which the connection to a model depends."""
_EXPECTED: Final = (
    "Pass a ChatModel, a LangChain chat model, or the name of a model with its provider, e.g. 'openai:gpt-5'."
)


def as_chat_model(value: object) -> ChatModel:
    """Convert a value to a chat model.

    A ChatModel is returned unchanged, a LangChain model is wrapped, and a name such as `openai:gpt-5` is resolved by
    `statewright.models.providers`. Raises InvalidConfig for anything else.
    """
    if isinstance(value, type):
        raise InvalidConfig(f"The model is the class {value.__name__}, not an instance of it. {_EXPECTED}")
    if isinstance(value, ChatModel):
        return value
    if isinstance(value, str):
        return _connect(value)
    if is_langchain_model(value):
        return LangChainModel(value)
    raise InvalidConfig(f"The model is {value!r} of type {type(value).__name__}. {_EXPECTED}")


def is_langchain_model(value: object) -> bool:
    """Return True for a LangChain chat model, without importing LangChain."""
    return is_instance_of(value, "BaseChatModel", "langchain_core.")


def is_instance_of(value: object, name: str, package: str) -> bool:
    """Return True for an instance of the class `name` in `package`, without importing the package."""
    classes = cast("tuple[type[Any], ...]", type(value).__mro__)
    return any(cls.__name__ == name and cls.__module__.startswith(package) for cls in classes)


def _connect(name: str) -> ChatModel:
    if not name.strip():
        raise InvalidConfig(f"The name of the model is empty. {_EXPECTED}")
    variables = ((key, value) for key, value in os.environ.items() if key.endswith(_CONNECTION_VARIABLES))
    return _cached_connection(name, frozenset(variables))


@lru_cache(maxsize=64)
def _cached_connection(name: str, environment: frozenset[tuple[str, str]]) -> ChatModel:
    """Connect to a model. The connection is cached by name and environment, because each has its own HTTP client."""
    from statewright.models.providers import connect_model  # imports optional libraries

    return connect_model(name)
