"""The user message of a call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from statewright.workflow.states.handlers.call import format_task


@pytest.mark.parametrize(
    ("prompt", "item", "expected"),
    [
        ("Do it.", ..., "Do it."),
        ("", ..., "-"),
        ("Do it.", "a", "Do it.\n\nCurrent task: a"),
        ("", {"n": 1}, '-\n\nCurrent task: {"n": 1}'),
        ("Do it.", None, "Do it.\n\nCurrent task: null"),
    ],
)
def test_2_6_the_user_message_contains_the_task_and_the_item(prompt: str, item: Any, expected: str) -> None:
    call: Any = SimpleNamespace(prompt=prompt, item=item, has_item=item is not ...)
    assert format_task(call) == expected
