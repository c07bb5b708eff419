"""Random conversations of all kinds, for tests of code that must be able to send any of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from statewright.messages import Message, ToolCall

_IDS: Final = ("a", "b", "c", "", "functions.look:0", "i" * 300, "\ud83d")
_NAMES: Final = ("look", "look it up!", "", "x" * 200, "ünï", "functions.look")
_TEXTS: Final = ("", " ", "text", "\ud83d", [{"type": "text", "text": ""}, {"type": "text", "text": "text"}])


def random_conversation(draw: random.Random) -> list[Message]:
    """Return a conversation as a thread may have it after edits, several models, and answers that providers reject."""
    return [_random_message(draw) for _ in range(draw.randint(0, 9))]


def _random_message(draw: random.Random) -> Message:
    text: Any = draw.choice(_TEXTS)
    match draw.randrange(6):
        case 0:
            return Message(text)
        case 1:
            return Message(text, role="system")
        case 2:
            return Message(text, role="assistant")
        case 3:
            return Message(text, role="tool", name="look", tool_call_id=draw.choice(_IDS))
        case 4:
            return _call_tools(text, [(call_id, "look") for call_id in draw.sample(_IDS[:3], draw.randint(1, 3))])
        case _:
            return _call_tools(text, [(draw.choice(_IDS), draw.choice(_NAMES)) for _ in range(draw.randint(1, 4))])


def _call_tools(text: Any, calls: Sequence[tuple[str, str]]) -> Message:
    return Message(text, role="assistant", tool_calls=tuple(ToolCall(call_id, name) for call_id, name in calls))
