"""Calls of tools: their answers are plain JSON without secrets."""

from __future__ import annotations

import asyncio
import logging
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from statewright.agents import HttpError, ToolContext, ToolFunction, call_tool, is_worth_another_attempt
from statewright.errors import ModelUnavailable, ToolError
from statewright.workflow.states.tools.integrations import Integrations

SECRET = "s3cret-value"


def call(function: Callable[..., Any]) -> Any:
    credentials = Integrations({"git": {"token": "env:GIT"}}).credentials("git", {"GIT": SECRET})
    return asyncio.run(call_tool(ToolFunction(function, name="work"), {}, context=ToolContext(credentials)))


def error_of_call(error: Exception) -> BaseException:
    def fail() -> None:
        raise error

    with pytest.raises(Exception) as caught:  # noqa: PT011  # of any class
        call(fail)
    return caught.value


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("text", "text"),
        ("half \ud800", "half \ufffd"),
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        (math.nan, None),
        ({"a": (1, {2}), 3: math.inf}, {"a": [1, [2]], "3": None}),
        (Point(1), {"x": 1}),
        ([date(2026, 1, 2)], ["2026-01-02"]),
        (b"bytes", "bytes"),
    ],
)
def test_2_7_text_is_unchanged_and_other_answers_become_json(answer: Any, expected: Any) -> None:
    assert call(lambda: answer) == expected


def test_answers_that_are_not_json_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for answer in (object(), endless, b"\xff"):
        with pytest.raises(ToolError, match=r"Tool 'work' returned a .* cannot be written as JSON"):
            call(lambda answer=answer: answer)


def test_2_11_errors_of_a_tool_are_raised_unchanged() -> None:
    class Own(Exception): ...

    for error in (
        ConnectionError("a"),
        TimeoutError("b"),
        ValueError("c"),
        Own("d"),
        ModelUnavailable("e", status=503),
    ):
        raised = error_of_call(error)
        assert raised is error
        assert raised.__notes__ == ["Raised by tool 'work'."]


def test_4_1_11_a_secret_is_hidden_in_results() -> None:
    assert call(lambda: {"echo": f"Bearer {SECRET}", SECRET: 1}) == {"echo": "Bearer ***", "***": 1}


def test_4_1_11_a_secret_is_hidden_in_errors_which_keep_their_class(caplog: pytest.LogCaptureFixture) -> None:
    kinds: list[tuple[Exception, type[Exception], bool]] = [
        (ConnectionResetError(SECRET), ConnectionError, True),
        (TimeoutError(SECRET), TimeoutError, True),
        (HttpError(SECRET, status=429, retry_after=3), HttpError, True),
        (HttpError(SECRET, status=404), HttpError, False),
        (ValueError(SECRET), ToolError, False),
        (ModelUnavailable(SECRET, status=503, retry_after=1), HttpError, True),
    ]
    for error, kind, is_transient in kinds:
        raised = error_of_call(error)
        assert type(raised) is kind
        assert "***" in str(raised)
        assert is_worth_another_attempt(raised) is is_transient
        assert SECRET not in "".join(traceback.format_exception(raised))
        logging.getLogger("test").error("failed", exc_info=raised)
    assert SECRET not in caplog.text


def test_4_1_11_a_secret_in_a_cause_is_hidden() -> None:
    error = ValueError("harmless")
    error.__cause__ = KeyError(SECRET)
    raised = error_of_call(error)
    assert type(raised) is ToolError
    assert SECRET not in "".join(traceback.format_exception(raised))


def test_a_cancelled_call_is_not_an_error_of_the_tool() -> None:
    async def main() -> None:
        tool = ToolFunction(lambda: None, name="work")
        task = asyncio.create_task(call_tool(tool, {}, context=ToolContext()))
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
