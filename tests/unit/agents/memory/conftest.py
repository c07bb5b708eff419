"""A short notation for conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.messages import Message, ToolCall

ConversationOf = Callable[[str], list[Message]]
SelectedWords = Callable[..., str]


def _message(word: str) -> Message:
    kind, rest = word[0], word[1:]
    if kind == "c":
        calls = tuple(ToolCall(call_id, "look", {"at": call_id}) for call_id in rest.split(","))
        return Message(word, role="assistant", tool_calls=calls)
    if kind == "r":
        return Message(word, role="tool", tool_call_id=rest)
    return Message(word, role={"s": "system", "u": "user", "a": "assistant"}[kind])


@pytest.fixture
def conversation_of() -> ConversationOf:
    """Return a function that creates messages: `s` system, `u` user, `a` assistant, `c1,2` calls, `r1` a result."""
    return lambda text: [_message(word) for word in text.split()]


@pytest.fixture
def selected_words() -> SelectedWords:
    """Return a function that returns the words of the messages that a strategy selects."""

    def select(strategy: MemoryStrategy, messages: Sequence[Message], **context: object) -> str:
        sent = asyncio.run(strategy.select(messages, context=MemoryContext(**context)))  # type: ignore[arg-type]
        return " ".join(message.text for message in sent)

    return select
