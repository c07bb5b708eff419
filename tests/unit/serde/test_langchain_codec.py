"""Encoding and decoding messages of LangChain, which need no registration."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core import messages as core

from statewright.errors import SerdeError
from statewright.serde.langchain_codec import CODEC
from statewright.serde.serde import Serde

CALL = {"name": "add", "args": {"a": (1, 2)}, "id": "c1", "type": "tool_call"}
MESSAGES: list[Any] = [
    core.HumanMessage("hi", id="1", example=True),
    core.HumanMessage([{"type": "image_url", "image_url": {"url": "u"}}, "text"], nickname="ann"),
    core.AIMessage("x", tool_calls=[CALL], additional_kwargs={"tool_calls": [{"id": "other"}]}),
    core.AIMessage("x", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}),
    core.AIMessageChunk("x", tool_call_chunks=[{"name": "a", "args": "{", "id": "1", "index": 0}]),
    core.SystemMessage("be kind", name="boss"),
    core.ToolMessage("3", tool_call_id="c1", artifact={"n": {1, 2}}, status="error"),
    core.ToolMessageChunk("3", tool_call_id="c1"),
    core.FunctionMessage("3", name="add"),
    core.ChatMessage("hm", role="critic"),
    core.RemoveMessage(id="1"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_a_round_trip(message: Any) -> None:
    (restored,) = Serde().decode(Serde().encode([message]))
    assert (type(restored), restored) == (type(message), message)
    assert restored.model_fields_set == message.model_fields_set
    assert restored.model_extra == message.model_extra


def test_a_custom_subclass_of_a_message_is_refused() -> None:
    class OwnMessage(core.HumanMessage):
        pass

    with pytest.raises(SerdeError, match="OwnMessage is not registered"):
        Serde().encode(OwnMessage("x"))


def test_a_value_that_cannot_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(SerdeError, match=r"value.*artifact.*type builtins.object is not registered"):
        Serde().encode(core.ToolMessage("3", tool_call_id="c1", artifact=object()))


def test_unknown_message_classes_are_not_decoded() -> None:
    with pytest.raises(ValueError, match="'BaseMessage' is not a supported LangChain message class"):
        CODEC.decode(["BaseMessage", {}])
