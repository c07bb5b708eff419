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


def answered(made: Any, *calls: ToolCall, **options: Any) -> list[Message]:
    asks = Message("", role="assistant", tool_calls=calls)
    found = made.invoke({"messages": ["hi", asks], **options}, thread_id="t")["messages"]
    return found[2:]


def wants(number: Any, identity: str = "1") -> ToolCall:
    return ToolCall(identity, "work", {"number": number})


def test_one_call_and_several_are_answered_in_order() -> None:
    assert [one.text for one in answered(app(work), wants(1))] == ["10"]
    several = answered(app(work), *(wants(number, f"c{number}") for number in range(30)))
    assert [one.text for one in several] == [str(number * 10) for number in range(30)]
    assert [one.tool_call_id for one in several] == [f"c{number}" for number in range(30)]


def test_a_state_whose_last_message_asks_for_nothing_stays() -> None:
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


def test_another_key_may_hold_the_messages() -> None:
    class State(TypedDict):
        said: Annotated[list[Message], add_messages]

    asks = Message("", role="assistant", tool_calls=(wants(2),))
    made = app(work, state=State, messages_key="said")
    assert made.invoke({"said": [asks]}, thread_id="t")["said"][-1].text == "20"


# -- what a tool may answer


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
def test_each_answer_answers_the_call(answer: Any, texts: list[str]) -> None:
    made = app(tool(name="work")(lambda: answer))
    messages = answered(made, ToolCall("1", "work"))
    assert [(one.text, one.role, one.tool_call_id) for one in messages] == [(text, "tool", "1") for text in texts]


def test_a_value_that_json_cannot_express_is_reported() -> None:
    (message,) = answered(app(tool(name="work")(lambda: object())), ToolCall("1", "work"))
    assert message.metadata == {"status": "error"}
    assert "JSON" in message.text


def test_a_command_to_nowhere_is_an_error() -> None:
    with pytest.raises(UnknownTarget, match="nowhere"):
        answered(app(tool(name="work")(lambda: Command(goto="nowhere"))), ToolCall("1", "work"))


def test_commands_of_several_calls_are_all_kept() -> None:
    class State(MessagesState):
        notes: Annotated[list[str], lambda old, new: [*old, *new]]

    def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Note."""
        return Command(update={"notes": [text], "messages": [Message("noted", role="tool", tool_call_id=call_id)]})

    made = app(note, state=State)
    calls = [ToolCall(str(number), "note", {"text": f"n{number}"}) for number in range(3)]
    assert [one.text for one in answered(made, *calls, notes=[])] == ["noted"] * 3
    assert made.get_state(thread_id="t").values["notes"] == ["n0", "n1", "n2"]


def test_a_tool_sees_the_state_as_it_was() -> None:
    class State(MessagesState):
        user: str

    def who(state: Annotated[Any, InjectedState], user: Annotated[str, InjectedState("user")]) -> str:
        """Who is it."""
        return f"{user} {len(state['messages'])}"

    calls = [ToolCall(str(number), "who") for number in range(2)]
    assert [one.text for one in answered(app(who, state=State), *calls, user="eve")] == ["eve 2"] * 2


# -- what goes wrong


WRONG = [wants("x"), ToolCall("1", "wrok", {}), ToolCall("1", "work", invalid="{")]


@pytest.mark.parametrize("call", WRONG, ids=["argument", "name", "no JSON"])
@pytest.mark.parametrize("handling", [True, False, "sorry", (KeyError,)], ids=repr)
def test_what_is_wrong_with_the_call_always_goes_back_to_the_model(call: ToolCall, handling: Any) -> None:
    (message,) = answered(app(work, handle_tool_errors=handling), call)
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
    (message,) = answered(app(fails, handle_tool_errors=handling), ToolCall("1", "fails"))
    assert (message.text, message.metadata) == (text, {"status": "error"})


@pytest.mark.parametrize("handling", [False, ValueError, (ValueError, OSError)])
def test_what_a_tool_raises_is_raised(handling: Any) -> None:
    with pytest.raises(KeyError, match="row"):
        answered(app(fails, handle_tool_errors=handling), ToolCall("1", "fails"))


def test_a_failing_call_is_made_again_alone() -> None:
    made: Counter[int] = Counter()

    def flaky(number: int) -> int:
        """Fail once."""
        made[number] += 1
        if number == 1 and made[number] == 1:
            raise ConnectionError("cut")
        return number

    graph = app(flaky, handle_tool_errors=False)
    calls = [ToolCall(str(number), "flaky", {"number": number}) for number in range(3)]
    with pytest.raises(ConnectionError):
        answered(graph, *calls)
    before = dict(made)
    found = graph.invoke(None, thread_id="t")["messages"]
    assert [one.text for one in found[2:]] == ["0", "1", "2"]
    assert made[1] == before[1] + 1


def test_approvals_pause_their_own_call_only() -> None:
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

    made = app(send, look, ask)
    calls = (ToolCall("1", "send", {"to": "all"}), ToolCall("2", "look"), ToolCall("3", "ask"))
    asks = Message("", role="assistant", tool_calls=calls)
    waiting = made.invoke({"messages": [asks]}, thread_id="t")["__interrupt__"]
    answers = {one.id: "like this" if one.value == "how?" else True for one in waiting}
    found = made.invoke(Command(resume=answers), thread_id="t")["messages"]
    assert [one.text for one in found[1:]] == ["sent to all", "seen", "like this"]
    assert done == {"all": 1, "look": 1}


# -- tools_condition


@pytest.mark.parametrize(
    ("state", "way"),
    [
        ({"messages": [Message("x", role="assistant", tool_calls=(wants(1),))]}, "tools"),
        ({"messages": [Message("x", role="assistant")]}, END),
        ([Message("x", role="assistant", tool_calls=(wants(1),))], "tools"),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "w", "args": {}}]}]},
            "tools",
        ),
    ],
)
def test_the_way_after_a_model(state: Any, way: str) -> None:
    assert tools_condition(state) == way


def test_without_messages_there_is_no_way() -> None:
    with pytest.raises(InvalidUpdateError):
        tools_condition({"messages": []})
