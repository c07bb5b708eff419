"""The codec for LangChain messages, which need no registration and are stored under short names.

A message is stored as the fields that were set, and other fields that differ from their defaults. It is rebuilt without
validators, which would derive tool calls from other fields; fields that are not stored get their defaults. LangChain is
not imported until such a message is read.
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
    """Return the name of the class, the fields that were set, and other fields that differ from their defaults."""
    were_set = message.model_fields_set
    fields: dict[str, Any] = dict(message)
    declared: Mapping[str, Any] = cast("Any", type(message)).model_fields
    changed = {
        name: value
        for name, value in fields.items()
        if name not in were_set and not (name in declared and value == _default(declared[name]))
    }
    set_fields = {name: value for name, value in fields.items() if name in were_set}
    return [type(message).__name__, set_fields, changed] if changed else [type(message).__name__, set_fields]


def _default(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


def _decode(parts: Sequence[Any]) -> Any:
    name, set_fields, *optional = parts
    if name not in _CLASSES:
        raise ValueError(f"message class {name!r} does not exist")
    changed: dict[str, Any] = optional[0] if optional else {}
    kind = getattr(importlib.import_module("langchain_core.messages"), name)
    return kind.model_construct(_fields_set=set(set_fields), **{**set_fields, **changed})


CODEC: Final = Codec(59, "langchain_core.messages.base.BaseMessage", _encode, _decode)
BY_TAG[CODEC.tag] = CODEC


def codec_for(kind: type) -> Codec | None:
    """Return the codec for a class of langchain_core.messages; None for other classes, such as users' subclasses."""
    is_known = kind.__module__.startswith("langchain_core.messages.") and kind.__name__ in _CLASSES
    return CODEC if is_known else None
