"""A short notation for conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.messages import Message, ToolCall

Talk = Callable[[str], list[Message]]
Shown = Callable[..., str]


def _message(word: str) -> Message:
    kind, rest = word[0], word[1:]
    if kind == "c":
        calls = tuple(ToolCall(one, "look", {"at": one}) for one in rest.split(","))
        return Message(word, role="assistant", tool_calls=calls)
    if kind == "r":
        return Message(word, role="tool", tool_call_id=rest)
    return Message(word, role={"s": "system", "u": "user", "a": "assistant"}[kind])


@pytest.fixture
def talk() -> Talk:
    """Messages from words: `s` of the system, `u` of the user, `a` of the assistant, `c1,2` calls, `r1` a result."""
    return lambda text: [_message(word) for word in text.split()]


@pytest.fixture
def shown() -> Shown:
    """What a strategy sends of messages, as the words that they were made of."""

    def select(strategy: MemoryStrategy, messages: Sequence[Message], **context: object) -> str:
        sent = asyncio.run(strategy.select(messages, context=MemoryContext(**context)))  # type: ignore[arg-type]
        return " ".join(message.text for message in sent)

    return select
