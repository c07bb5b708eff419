"""Iterators as answers: read where the tool runs, within its timeout, and up to a limit."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from statewright import START, MessagesState, StateGraph
from statewright.agents import ModelRetry, ToolContext, ToolNode, answer_call, call_tool, create_tool, tool
from statewright.agents.tools import answers
from statewright.errors import ToolError
from statewright.messages import Message, ToolCall


def here() -> str:
    return threading.current_thread().name


def numbers() -> Iterator[Any]:
    for number in range(3):
        yield [number, here()]


async def numbers_later() -> AsyncIterator[Any]:
    for number in range(3):
        await asyncio.sleep(0)
        yield [number, here()]


def numbered(number: int) -> Any:
    return [number, here()]


def mapped() -> Any:
    return map(numbered, range(3))


def inside() -> Any:
    return {"rows": numbers(), "n": [1]}


async def given_by_coroutine() -> Any:
    return numbers()


def given_awaitable() -> Any:
    return given_by_coroutine()


FORMS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (numbers, mapped, inside, given_by_coroutine, given_awaitable)
}


class Own:
    """A tool that is no function."""

    name = "own"
    description = ""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}

    async def call(self, arguments: Any, *, context: ToolContext) -> Any:
        return numbers()


def called(made: Any, **context: Any) -> Any:
    return asyncio.run(call_tool(made, {}, context=ToolContext(**context)))


def rows(answer: Any) -> list[Any]:
    return answer["rows"] if isinstance(answer, dict) else answer


@pytest.mark.parametrize("form", FORMS)
def test_plain_iterators_are_read_on_a_worker_thread(form: str) -> None:
    for made in (
        tool(FORMS[form]),
        create_tool(name="t", handler=lambda _: FORMS[form]()),
        Own(),
    ):
        found = rows(called(made))
        assert [number for number, _ in found] == [0, 1, 2]
        assert here() not in {thread for _, thread in found}


def test_asynchronous_ones_are_read_on_the_loop() -> None:
    assert called(tool(numbers_later)) == [[number, here()] for number in range(3)]


@pytest.mark.parametrize("function", [numbers, numbers_later, mapped, inside])
def test_a_tool_node_reads_them_with_a_loop_and_without(function: Callable[..., Any]) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool(function)]))
    graph.add_edge(START, "tools")
    asked = {"messages": [Message("", role="assistant", tool_calls=(ToolCall("1", function.__name__),))]}
    app = graph.compile()
    for answer in (app.invoke(asked), asyncio.run(app.ainvoke(asked))):
        message = answer["messages"][-1]
        assert message.metadata is None
        assert all(f"[{number}, " in message.text for number in range(3))


class OwnError(Exception): ...


@pytest.mark.parametrize("error", [ModelRetry("ask otherwise"), OwnError("broken pipe"), StopIteration(1)])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_raised_between_two_values_is_raised_by_the_tool(error: Exception, is_async: bool) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise error

    async def failing_later() -> AsyncIterator[int]:
        yield 1
        raise error

    made = tool(name="failing")(failing_later if is_async else failing)
    message = asyncio.run(answer_call(ToolCall("1", "failing"), {"failing": made}, ToolContext()))
    assert message.metadata == {"status": "error"}
    assert "cannot be written as JSON" not in message.text
    if isinstance(error, ModelRetry):
        assert message.text == "Error: ask otherwise"
    elif isinstance(error, OwnError):
        assert message.text == "Error: OwnError: broken pipe"


def test_a_generator_that_takes_too_long_is_left_and_then_closed() -> None:
    closed = threading.Event()
    go_on = threading.Event()

    @tool(timeout=0.05)
    def slow() -> Iterator[int]:
        try:
            go_on.wait(600)
            yield from itertools.count()
        finally:
            closed.set()

    async def both() -> Message:
        answered = await answer_call(ToolCall("1", "slow"), {"slow": slow}, ToolContext())
        go_on.set()
        return answered

    assert "took longer than 0.05 seconds" in asyncio.run(both()).text
    assert closed.wait(600)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("value", [1, "x" * 1000, b"x" * 1000, {}])
def test_an_endless_one_comes_to_an_end(value: Any, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_VALUES", 50)
    monkeypatch.setattr(answers, "MAX_TEXT", 5000)
    closed: list[str] = []

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield value
        finally:
            closed.append("plain")

    async def endless_later() -> AsyncIterator[Any]:
        try:
            while True:
                yield value
        finally:
            closed.append("later")

    def nested() -> Any:
        return [{"rows": endless()}]

    for function in (endless, endless_later, nested):
        with pytest.raises(ToolError, match=rf"Tool '{function.__name__}' yielded more than 50 values or 5000"):
            called(tool(function), in_place=in_place)
    assert closed == ["plain", "later", "plain"]


def test_answers_without_iterators_stay_the_objects_that_they_are() -> None:
    circle: list[Any] = []
    circle += [circle, circle, {"of": circle}]
    made = answers.IteratorReader("t")
    for answer in (circle, {"a": [1]}, (1, 2), "text", None, Message("x"), [Message("x")]):
        assert made.read(answer) is answer
