"""The codec for LangChain messages, which need no registration and are stored under short names.

A message is stored as the fields that were set explicitly, and the other fields that differ from their defaults. It is
rebuilt without validators, which would derive tool calls from other fields; fields that are not stored get their
defaults. LangChain is not imported until a message is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from statewright.serde.codecs import BY_TAG, Codec

_CLASSES: Final = frozenset(
    {
        "AIMessage",
        "AIMessageChunk",
        "ChatMessage",
        "ChatMessageChunk",
        "FunctionMessage",
        "FunctionMessageChunk",
        "HumanMessage",
        "HumanMessageChunk",
        "RemoveMessage",
        "SystemMessage",
        "SystemMessageChunk",
        "ToolMessage",
        "ToolMessageChunk",
    }
)
"""The classes of langchain_core.messages, whose names are part of stored data."""


def _encode(message: Any) -> list[Any]:
    """Return the name of the class, the explicitly set fields, and the other fields that differ from their defaults."""
    explicit_names = message.model_fields_set
    fields: dict[str, Any] = dict(message)
    declared_fields: Mapping[str, Any] = cast("Any", type(message)).model_fields
    changed_fields = {
        name: value
        for name, value in fields.items()
        if name not in explicit_names and not (name in declared_fields and value == _default(declared_fields[name]))
    }
    explicit_fields = {name: value for name, value in fields.items() if name in explicit_names}
    return [type(message).__name__, explicit_fields, *([changed_fields] if changed_fields else [])]


def _default(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


def _decode(parts: Sequence[Any]) -> Any:
    name, explicit_fields, *optional = parts
    if name not in _CLASSES:
        raise ValueError(f"{name!r} is not a supported LangChain message class")
    changed_fields: dict[str, Any] = optional[0] if optional else {}
    cls = getattr(importlib.import_module("langchain_core.messages"), name)
    return cls.model_construct(_fields_set=set(explicit_fields), **{**explicit_fields, **changed_fields})


CODEC: Final = Codec(59, "langchain_core.messages.base.BaseMessage", _encode, _decode)
BY_TAG[CODEC.tag] = CODEC


def codec_for(cls: type) -> Codec | None:
    """Return the codec for a class of langchain_core.messages; None for other classes, such as users' subclasses."""
    is_supported = cls.__module__.startswith("langchain_core.messages.") and cls.__name__ in _CLASSES
    return CODEC if is_supported else None
