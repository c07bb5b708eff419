"""The node that calls tools."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, MessagesState, StateGraph, add_messages, interrupt
from statewright.agents import InjectedState, InjectedToolCallId, ToolNode, tool, tools_condition
from statewright.errors import InvalidConfig, InvalidUpdateError, UnknownTarget
from statewright.messages import Message, ToolCall, ToolResult


def work(number: int) -> int:
    """Do it."""
    return number * 10


def app(*tools: Any, state: Any = MessagesState, **options: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "tools")
    return graph.compile(InMemorySaver())


def answers(graph: Any, *calls: ToolCall, **options: Any) -> list[Message]:
    message = Message("", role="assistant", tool_calls=calls)
    messages = graph.invoke({"messages": ["hi", message], **options}, thread_id="t")["messages"]
    return messages[2:]


def work_call(number: Any, call_id: str = "1") -> ToolCall:
    return ToolCall(call_id, "work", {"number": number})


def test_one_or_several_calls_are_answered_in_order() -> None:
    assert [message.text for message in answers(app(work), work_call(1))] == ["10"]
    several = answers(app(work), *(work_call(number, f"c{number}") for number in range(30)))
    assert [answer.text for answer in several] == [str(number * 10) for number in range(30)]
    assert [answer.tool_call_id for answer in several] == [f"c{number}" for number in range(30)]


def test_a_state_without_tool_calls_is_unchanged() -> None:
    assert app(work).invoke({"messages": ["hi"]}, thread_id="t")["messages"][0].text == "hi"


def test_a_state_without_messages_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="'messages' has no messages"):
        app(work).invoke({"messages": []}, thread_id="t")


def test_duplicate_tool_names_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="work"):
        ToolNode([work, tool(name="work")(lambda: None)])


@pytest.mark.parametrize("tools", [[3], ["work"], [None]])
def test_only_tools_and_functions_are_accepted(tools: Any) -> None:
    with pytest.raises(InvalidConfig):
        ToolNode(tools)


def test_the_messages_can_have_another_key() -> None:
    class State(TypedDict):
        conversation: Annotated[list[Message], add_messages]

    message = Message("", role="assistant", tool_calls=(work_call(2),))
    graph = app(work, state=State, messages_key="conversation")
    assert graph.invoke({"conversation": [message]}, thread_id="t")["conversation"][-1].text == "20"


# -- answers


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ("text", ["text"]),
        (None, ["work was executed."]),
        ([], ["[]"]),
        ([1, 2], ["[1, 2]"]),
        ({"a": 1}, ['{"a": 1}']),
        (ToolResult("another id", "x"), ["x"]),
        (ToolResult("another id", {"a": 1}), ['{"a": 1}']),
        (Message("m", role="assistant"), ["m"]),
        (Command(update={"messages": []}), ["work was executed."]),
        (Command(update={"messages": [Message("own", role="tool", tool_call_id="1")]}), ["own"]),
        ([Command(goto=END), "and text"], ["and text"]),
    ],
    ids=repr,
)
def test_each_kind_of_answer_becomes_a_message_of_the_call(answer: Any, texts: list[str]) -> None:
    graph = app(tool(name="work")(lambda: answer))
    messages = answers(graph, ToolCall("1", "work"))
    assert [(message.text, message.role, message.tool_call_id) for message in messages] == [
        (text, "tool", "1") for text in texts
    ]


def test_a_value_that_json_cannot_express_is_reported() -> None:
    (message,) = answers(app(tool(name="work")(lambda: object())), ToolCall("1", "work"))
    assert message.metadata == {"status": "error"}
    assert "JSON" in message.text


def test_a_command_to_an_unknown_node_is_an_error() -> None:
    with pytest.raises(UnknownTarget, match="nowhere"):
        answers(app(tool(name="work")(lambda: Command(goto="nowhere"))), ToolCall("1", "work"))


def test_commands_of_several_calls_are_all_applied() -> None:
    class State(MessagesState):
        notes: Annotated[list[str], lambda old, new: [*old, *new]]

    def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Note."""
        return Command(update={"notes": [text], "messages": [Message("noted", role="tool", tool_call_id=call_id)]})

    graph = app(note, state=State)
    calls = [ToolCall(str(number), "note", {"text": f"n{number}"}) for number in range(3)]
    assert [message.text for message in answers(graph, *calls, notes=[])] == ["noted"] * 3
    assert graph.get_state(thread_id="t").values["notes"] == ["n0", "n1", "n2"]


def test_concurrent_tools_receive_the_same_state() -> None:
    class State(MessagesState):
        user: str

    def who(state: Annotated[Any, InjectedState], user: Annotated[str, InjectedState("user")]) -> str:
        """Who is it."""
        return f"{user} {len(state['messages'])}"

    calls = [ToolCall(str(number), "who") for number in range(2)]
    assert [message.text for message in answers(app(who, state=State), *calls, user="eve")] == ["eve 2"] * 2


# -- errors


INVALID_CALLS = [work_call("x"), ToolCall("1", "wrok", {}), ToolCall("1", "work", invalid="{")]


@pytest.mark.parametrize("call", INVALID_CALLS, ids=["argument", "name", "no JSON"])
@pytest.mark.parametrize("handling", [True, False, "sorry", (KeyError,)], ids=repr)
def test_invalid_calls_are_always_reported_to_the_model(call: ToolCall, handling: Any) -> None:
    (message,) = answers(app(work, handle_tool_errors=handling), call)
    assert message.metadata == {"status": "error"}


def fails() -> None:
    """Fail."""
    raise KeyError("row")


@pytest.mark.parametrize(
    ("handling", "text"),
    [
        (True, "Error: KeyError: 'row'"),
        ("sorry", "sorry"),
        (lambda error: f"told {error}", "told 'row'"),
        (KeyError, "Error: KeyError: 'row'"),
        ((ValueError, LookupError), "Error: KeyError: 'row'"),
    ],
)
def test_errors_of_tools_are_reported(handling: Any, text: str) -> None:
    (message,) = answers(app(fails, handle_tool_errors=handling), ToolCall("1", "fails"))
    assert (message.text, message.metadata) == (text, {"status": "error"})


@pytest.mark.parametrize("handling", [False, ValueError, (ValueError, OSError)])
def test_unhandled_errors_of_tools_are_raised(handling: Any) -> None:
    with pytest.raises(KeyError, match="row"):
        answers(app(fails, handle_tool_errors=handling), ToolCall("1", "fails"))


def test_a_resume_repeats_only_the_failing_call() -> None:
    attempts: Counter[int] = Counter()

    def flaky(number: int) -> int:
        """Fail once."""
        attempts[number] += 1
        if number == 1 and attempts[number] == 1:
            raise ConnectionError("cut")
        return number

    graph = app(flaky, handle_tool_errors=False)
    calls = [ToolCall(str(number), "flaky", {"number": number}) for number in range(3)]
    with pytest.raises(ConnectionError):
        answers(graph, *calls)
    before = dict(attempts)
    messages = graph.invoke(None, thread_id="t")["messages"]
    assert [message.text for message in messages[2:]] == ["0", "1", "2"]
    assert attempts[1] == before[1] + 1


def test_an_approval_pauses_only_its_own_call() -> None:
    done: Counter[str] = Counter()

    @tool(approve=True)
    def send(to: str) -> str:
        """Send."""
        done[to] += 1
        return f"sent to {to}"

    @tool
    def look() -> str:
        """Look."""
        done["look"] += 1
        return "seen"

    @tool
    def ask() -> str:
        """Ask."""
        return interrupt("how?")

    graph = app(send, look, ask)
    calls = (ToolCall("1", "send", {"to": "all"}), ToolCall("2", "look"), ToolCall("3", "ask"))
    message = Message("", role="assistant", tool_calls=calls)
    waiting = graph.invoke({"messages": [message]}, thread_id="t")["__interrupt__"]
    answers = {question.id: "like this" if question.value == "how?" else True for question in waiting}
    messages = graph.invoke(Command(resume=answers), thread_id="t")["messages"]
    assert [message.text for message in messages[1:]] == ["sent to all", "seen", "like this"]
    assert done == {"all": 1, "look": 1}


# -- tools_condition


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ({"messages": [Message("x", role="assistant", tool_calls=(work_call(1),))]}, "tools"),
        ({"messages": [Message("x", role="assistant")]}, END),
        ([Message("x", role="assistant", tool_calls=(work_call(1),))], "tools"),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "w", "args": {}}]}]},
            "tools",
        ),
    ],
)
def test_tools_condition_routes_to_the_tools_or_the_end(state: Any, target: str) -> None:
    assert tools_condition(state) == target


def test_tools_condition_refuses_a_state_without_messages() -> None:
    with pytest.raises(InvalidUpdateError):
        tools_condition({"messages": []})
