"""Iterators as answers of tools: their threads, timeouts and limits."""

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


def thread_name() -> str:
    return threading.current_thread().name


def numbers() -> Iterator[Any]:
    for number in range(3):
        yield [number, thread_name()]


async def numbers_later() -> AsyncIterator[Any]:
    for number in range(3):
        await asyncio.sleep(0)
        yield [number, thread_name()]


def number_and_thread(number: int) -> Any:
    return [number, thread_name()]


def mapped() -> Any:
    return map(number_and_thread, range(3))


def nested_iterator() -> Any:
    return {"rows": numbers(), "n": [1]}


async def coroutine_with_iterator() -> Any:
    return numbers()


def function_with_awaitable() -> Any:
    return coroutine_with_iterator()


FORMS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (numbers, mapped, nested_iterator, coroutine_with_iterator, function_with_awaitable)
}


class CustomTool:
    """A tool that is not a function."""

    name = "own"
    description = ""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}

    async def call(self, arguments: Any, *, context: ToolContext) -> Any:
        return numbers()


def call_result(called_tool: Any, **context: Any) -> Any:
    return asyncio.run(call_tool(called_tool, {}, context=ToolContext(**context)))


def rows(answer: Any) -> list[Any]:
    return answer["rows"] if isinstance(answer, dict) else answer


@pytest.mark.parametrize("form", FORMS)
def test_plain_iterators_are_read_on_a_worker_thread(form: str) -> None:
    for iterator_tool in (
        tool(FORMS[form]),
        create_tool(name="t", handler=lambda _: FORMS[form]()),
        CustomTool(),
    ):
        rows_read = rows(call_result(iterator_tool))
        assert [number for number, _ in rows_read] == [0, 1, 2]
        assert thread_name() not in {thread for _, thread in rows_read}


def test_async_iterators_are_read_on_the_event_loop() -> None:
    assert call_result(tool(numbers_later)) == [[number, thread_name()] for number in range(3)]


@pytest.mark.parametrize("function", [numbers, numbers_later, mapped, nested_iterator])
def test_a_tool_node_reads_iterators_in_invoke_and_ainvoke(function: Callable[..., Any]) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool(function)]))
    graph.add_edge(START, "tools")
    input_state = {"messages": [Message("", role="assistant", tool_calls=(ToolCall("1", function.__name__),))]}
    app = graph.compile()
    for answer in (app.invoke(input_state), asyncio.run(app.ainvoke(input_state))):
        message = answer["messages"][-1]
        assert message.metadata is None
        assert all(f"[{number}, " in message.text for number in range(3))


class CustomError(Exception): ...


@pytest.mark.parametrize("error", [ModelRetry("ask otherwise"), CustomError("broken pipe"), StopIteration(1)])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_of_an_iterator_is_reported_as_that_of_the_tool(error: Exception, is_async: bool) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise error

    async def failing_later() -> AsyncIterator[int]:
        yield 1
        raise error

    failing_tool = tool(name="failing")(failing_later if is_async else failing)
    message = asyncio.run(answer_call(ToolCall("1", "failing"), {"failing": failing_tool}, ToolContext()))
    assert message.metadata == {"status": "error"}
    assert "cannot be written as JSON" not in message.text
    if isinstance(error, ModelRetry):
        assert message.text == "Error: ask otherwise"
    elif isinstance(error, CustomError):
        assert message.text == "Error: CustomError: broken pipe"


def test_a_generator_that_times_out_is_abandoned_and_closed() -> None:
    closed = threading.Event()
    released = threading.Event()

    @tool(timeout=0.05)
    def slow() -> Iterator[int]:
        try:
            released.wait(600)
            yield from itertools.count()
        finally:
            closed.set()

    async def call_and_release() -> Message:
        message = await answer_call(ToolCall("1", "slow"), {"slow": slow}, ToolContext())
        released.set()
        return message

    assert "took longer than 0.05 seconds" in asyncio.run(call_and_release()).text
    assert closed.wait(600)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("value", [1, "x" * 1000, b"x" * 1000, {}])
def test_an_endless_iterator_is_stopped_and_closed(value: Any, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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
            call_result(tool(function), in_place=in_place)
    assert closed == ["plain", "later", "plain"]


def test_answers_without_iterators_are_returned_unchanged() -> None:
    endless: list[Any] = []
    endless += [endless, endless, {"of": endless}]
    reader = answers.IteratorReader("t")
    for answer in (endless, {"a": [1]}, (1, 2), "text", None, Message("x"), [Message("x")]):
        assert reader.read(answer) is answer
