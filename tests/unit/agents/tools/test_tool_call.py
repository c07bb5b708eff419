"""Calls of a model: each is answered by a message, whatever its outcome."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statewright import START, InMemorySaver, Runtime, StateGraph, get_runtime
from statewright.agents import (
    ModelRetry,
    ToolContext,
    ToolFunction,
    ToolOptions,
    answer_call,
    create_tool,
    tool,
)
from statewright.agents.tools.calling import read_decision
from statewright.errors import InternalError, RunCancelled, RunError, SerdeError, StorageUnavailable, ToolError
from statewright.messages import Message, ToolCall


def answer_of(function: Any, *, name: str | None = None, call: ToolCall | None = None, **arguments: Any) -> Message:
    function_tool = function if isinstance(function, ToolFunction) else ToolFunction(function, name="work")
    call = call or ToolCall("c1", name or function_tool.name, arguments)
    return asyncio.run(answer_call(call, {function_tool.name: function_tool}, ToolContext()))


def is_error(message: Message) -> bool:
    return message.metadata == {"status": "error"}


def test_the_answer_has_the_id_of_the_call() -> None:
    message = answer_of(lambda number: number + 1, number=1)
    assert message == Message("2", role="tool", name="work", tool_call_id="c1")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("text", "text"),
        ("", ""),
        (None, "work was executed."),
        (0, "0"),
        (False, "false"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ("ä ☃", "ä ☃"),
        (["ä"], '["ä"]'),
    ],
)
def test_answers_are_text_or_json(answer: Any, text: str) -> None:
    message = answer_of(lambda: answer)
    assert (message.text, is_error(message)) == (text, False)


def endless_list() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize("make", [object, endless_list, lambda: lambda: None, lambda: {object(): 1}, lambda: b"\xff"])
def test_a_value_that_json_cannot_express_is_reported_to_the_model(make: Any) -> None:
    message = answer_of(make)
    assert is_error(message)
    assert "'work'" in message.text
    assert "JSON" in message.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("row"), "Error: KeyError: 'row'"),
        (ValueError(), "Error: ValueError"),
        (ToolError("No such file."), "Error: No such file."),
        (ModelRetry("Ask for less."), "Error: Ask for less."),
        (OSError(2, "gone"), "Error: FileNotFoundError: [Errno 2] gone"),
    ],
    ids=repr,
)
def test_errors_of_a_tool_are_reported_to_the_model(error: Exception, text: str) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    for function in (fail, fail_later):
        message = answer_of(function)
        assert (message.text, is_error(message)) == (text, True)


@pytest.mark.parametrize(
    "error", [RunError("run"), StorageUnavailable("gone"), SerdeError("value", "lost"), InternalError("x")]
)
def test_errors_of_the_runtime_are_raised(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        answer_of(fail)


def test_a_keyboard_interrupt_is_raised() -> None:
    async def leave() -> None:
        raise KeyboardInterrupt

    leave_tool = ToolFunction(leave, name="work")
    coroutine = answer_call(ToolCall("c1", "work"), {"work": leave_tool}, ToolContext())
    with pytest.raises(KeyboardInterrupt):
        coroutine.send(None)


@pytest.mark.parametrize(
    ("error", "expected"), [(SystemExit(2), "exit code 2"), (asyncio.CancelledError(), "cancelled itself")]
)
def test_a_tool_cannot_end_the_program_or_the_run(error: BaseException, expected: str) -> None:
    """Tools call programs that were written for the command line."""

    async def leave() -> None:
        raise error

    leave_tool = ToolFunction(leave, name="work")
    answer = asyncio.run(answer_call(ToolCall("c1", "work"), {"work": leave_tool}, ToolContext()))
    assert expected in answer.text
    assert answer.metadata == {"status": "error"}


def test_an_approval_receives_the_converted_arguments() -> None:
    """Otherwise text that is converted to true could pass without approval."""
    seen: list[Any] = []

    def removes(path: str, force: bool = False) -> str:
        """Remove a file."""
        return f"{path} {force}"

    def needs_approval(arguments: Any, context: ToolContext) -> bool:
        seen.append(dict(arguments))
        return False

    removal_tool = ToolFunction(removes, name="removes", options=ToolOptions(approve=needs_approval))
    for arguments in ({"path": "x", "force": "yes"}, {"path": "x"}, {"force": True}):
        asyncio.run(answer_call(ToolCall("c1", "removes", arguments), {"removes": removal_tool}, ToolContext()))
    assert seen == [{"path": "x", "force": True}, {"path": "x", "force": False}]


def test_an_unknown_tool_is_reported_to_the_model() -> None:
    message = answer_of(lambda: 1, name="wrok")
    assert is_error(message)
    assert message.text == "Error: Tool 'wrok' does not exist. Did you mean 'work'? Tools: work."
    assert message.name == "wrok"


@pytest.mark.parametrize("written", ["{", "[1]", "null", "3", '"text"', "{'a': 1}"])
def test_arguments_that_are_not_a_json_object_are_reported(written: str) -> None:
    message = answer_of(lambda: 1, call=ToolCall("c1", "work", invalid=written))
    assert is_error(message)
    assert "not a JSON object" in message.text
    assert repr(written) in message.text


@pytest.mark.parametrize("arguments", [{}, {"number": "x"}, {"number": None}, {"number": 1, "more": 2}])
def test_invalid_arguments_are_reported_without_calling_the_tool(arguments: dict[str, Any]) -> None:
    calls: list[int] = []

    def work(number: int) -> None:
        calls.append(number)

    message = answer_of(work, call=ToolCall("c1", "work", arguments))
    assert is_error(message)
    assert "number" in message.text
    assert calls == []


def test_a_tool_that_times_out_is_abandoned() -> None:
    released = threading.Event()

    @tool(timeout=0.05)
    def plain() -> None:
        """Wait."""
        released.wait(600)

    @tool(timeout=0.05)
    async def coroutine() -> None:
        """Wait."""
        await asyncio.sleep(30)

    for function in (plain, coroutine):
        message = answer_of(function)
        assert is_error(message)
        assert message.text.endswith("took longer than 0.05 seconds and was abandoned.")
    released.set()


def test_a_timeout_of_the_tool_itself_is_reported_unchanged() -> None:
    @tool(timeout=30)
    async def work() -> None:
        """Wait."""
        raise TimeoutError("the server said so")

    message = answer_of(work)
    assert is_error(message)
    assert "the server said so" in message.text


def test_a_tool_without_options_can_be_called() -> None:
    class Bare:
        name, description, parameters = "bare", "", {"type": "object"}

        async def call(self, arguments: Any, *, context: ToolContext) -> Any:
            return arguments["x"], context.tool_call_id

    message = asyncio.run(
        answer_call(ToolCall("c1", "bare", {"x": 1}), {"bare": Bare()}, ToolContext(tool_call_id="c1"))
    )
    assert message.text == '[1, "c1"]'


def test_a_handler_can_be_called_as_a_tool() -> None:
    add_tool = create_tool(
        name="add", parameters={"type": "object", "required": ["n"]}, handler=lambda arguments: arguments["n"]
    )
    calls = [ToolCall("1", "add", {"n": 4}), ToolCall("2", "add", {})]
    messages = [asyncio.run(answer_call(call, {"add": add_tool}, ToolContext())) for call in calls]
    assert next(message.text for message in messages) == "4"
    assert is_error(messages[1])
    assert '"n" is a required property' in messages[1].text


# -- decisions


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (True, (True, None, "")),
        (False, (False, None, "")),
        (None, (False, None, "")),
        (1, (False, None, "")),
        ("yes", (True, None, "")),
        (" YES ", (True, None, "")),
        ("ok", (True, None, "")),
        ("no", (False, None, "no")),
        ("too dear", (False, None, "too dear")),
        ("", (False, None, "")),
        ({"approved": True}, (True, None, "")),
        ({"approved": True, "arguments": {"n": 2}}, (True, {"n": 2}, "")),
        ({"approved": False, "reason": "late"}, (False, None, "late")),
        ({}, (False, None, "")),
        ({"approve": True}, (False, None, "")),
        ([True], (False, None, "")),
    ],
)
def test_a_decision_has_several_forms(answer: Any, decision: Any) -> None:
    assert read_decision(answer) == decision


@pytest.mark.parametrize("expected", ["no", "false", "denied", 0])
def test_a_mapping_without_a_boolean_is_not_an_approval(expected: Any) -> None:
    """A form of a web page sends text: 'false' must not send the mail."""
    assert read_decision({"approved": expected})[0] is False


def test_later_actions_of_an_abandoned_tool_have_no_effect() -> None:
    paid, parts_read, released, refused = list[int](), list[Any](), threading.Event(), list[Exception]()
    done = threading.Event()

    @tool(timeout=0.05)
    def pay(amount: int, runtime: Runtime[Any]) -> str:
        """Pays."""
        assert released.wait(600)
        for step in (runtime.step, get_runtime().step):
            try:
                step("pay", paid.append, amount)
            except RunCancelled as error:
                refused.append(error)
        runtime.stream_writer("late")
        done.set()
        return "paid"

    async def node(state: dict[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        context = ToolContext(runtime=runtime, stream_writer=runtime.stream_writer)
        answer = await answer_call(ToolCall("c1", "pay", {"amount": 5}), {"pay": pay}, context)
        released.set()
        while not done.is_set():
            await asyncio.sleep(0.001)
        return {"said": [answer.text, runtime.step("after", str, 1)]}

    app = StateGraph({"said": list}).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())

    async def run() -> None:
        parts = app.astream({}, {"thread_id": "t"}, stream_mode=["custom", "updates"])
        parts_read.extend([part async for part in parts])

    asyncio.run(run())
    [(_, update)] = parts_read
    assert "was abandoned" in update["node"]["said"][0]
    assert (paid, len(refused)) == ([], 2)
