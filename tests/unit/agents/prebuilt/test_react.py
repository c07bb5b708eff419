"""The standard agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from statewright import InMemorySaver, InMemoryStore, RetryPolicy, add_messages
from statewright.agents import InjectedState, ToolNode, create_agent, create_react_agent, tool
from statewright.errors import InvalidConfig, ModelError, ModelUnavailable, StatewrightError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ScriptedModel

Runner = Callable[..., list[Message]]


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Runner:
    def by_invoke(app: Any, value: Any = "go", **options: Any) -> list[Message]:
        return app.invoke({"messages": [value]} if isinstance(value, str) else value, **options)["messages"]

    def by_ainvoke(app: Any, value: Any = "go", **options: Any) -> list[Message]:
        input_state = {"messages": [value]} if isinstance(value, str) else value
        return asyncio.run(app.ainvoke(input_state, **options))["messages"]

    return by_invoke if request.param == "invoke" else by_ainvoke


def work(number: int) -> int:
    """Do it."""
    return number * 10


def work_calls(*numbers: int) -> list[ToolCall]:
    return [ToolCall(f"c{number}", "work", {"number": number}) for number in numbers]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_an_agent_without_tools_answers(run: Runner) -> None:
    model = ScriptedModel(["hello"])
    assert texts(run(create_agent(model))) == ["go", "hello"]


def test_the_loop_ends_when_the_model_calls_no_tool(run: Runner) -> None:
    model = ScriptedModel([work_calls(1, 2), work_calls(3), "end"])
    messages = run(create_agent(model, [work]))
    assert texts(messages) == ["go", "", "10", "20", "", "30", "end"]
    assert [len(request.messages) for request in model.requests] == [1, 4, 6]
    assert messages[-1].name == "agent"


def test_a_conversation_continues_on_its_thread(run: Runner) -> None:
    model = ScriptedModel(["one", "two"])
    app = create_agent(model, checkpointer=InMemorySaver())
    run(app, "first", thread_id="t")
    assert texts(run(app, "second", thread_id="t")) == ["first", "one", "second", "two"]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Help.", "Help."),
        (Message("Help.", role="system"), "Help."),
        (lambda state: f"{len(state['messages'])} messages", "1 messages"),
        (lambda: None, ""),
        (None, ""),
    ],
)
def test_the_prompt_can_be_text_or_a_function(prompt: Any, expected: str, run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(create_agent(model, prompt=prompt))
    assert model.requests[0].system == expected


def test_a_prompt_function_can_return_the_whole_conversation(run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(create_agent(model, prompt=lambda state: [Message("S", role="system"), *state["messages"][-1:]]))
    request = model.requests[0]
    sent = [request.system, *texts(list(request.messages))]
    assert [item for item in sent if item] == ["S", "go"]


@pytest.mark.parametrize("answer", [3, {"a": 1}, object()])
def test_an_invalid_prompt_is_an_error(answer: Any, run: Runner) -> None:
    with pytest.raises(StatewrightError, match="prompt"):
        run(create_agent(ScriptedModel(["x"]), prompt=lambda: answer, retries=0))


def test_system_messages_at_the_beginning_join_the_prompt(run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(create_agent(model, prompt="P"), {"messages": [Message("S", role="system"), Message("go")]})
    assert (model.requests[0].system, texts(list(model.requests[0].messages))) == ("P\n\nS", ["go"])


@pytest.mark.parametrize("model", [3, None, object(), "gpt-without-a-provider"])
def test_an_invalid_model_is_refused_at_creation(model: Any) -> None:
    with pytest.raises((InvalidConfig, ModelError)):
        create_agent(model)


def test_a_function_can_choose_the_model(run: Runner) -> None:
    small, large = ScriptedModel(["small"]), ScriptedModel(["large"])
    app = create_agent(lambda state: large if len(state["messages"]) > 1 else small)
    assert texts(run(app))[-1] == "small"
    assert texts(run(app, {"messages": ["a", "b"]}))[-1] == "large"


def test_hooks_run_before_and_after_each_model_call(run: Runner) -> None:
    seen: list[str] = []

    def before(state: Any) -> dict[str, Any]:
        seen.append("before")
        return {"llm_input_messages": state["messages"][-1:]}

    def after(state: Any) -> None:
        seen.append(f"after {state['messages'][-1].text}")

    model = ScriptedModel([work_calls(1), "end"])
    app = create_agent(model, [work], pre_model_hook=before, post_model_hook=after)
    assert texts(run(app)) == ["go", "", "10", "end"]
    assert seen == ["before", "after ", "before", "after end"]
    assert [len(request.messages) for request in model.requests] == [1, 1]


def test_a_hook_can_remove_a_tool_call(run: Runner) -> None:
    def after(state: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [Message("better not", role="assistant", id=last.id)]} if last.tool_calls else None

    model = ScriptedModel([work_calls(1)])
    assert texts(run(create_agent(model, [work], post_model_hook=after))) == ["go", "better not"]


def test_a_custom_state_schema_is_used(run: Runner) -> None:
    class State(TypedDict):
        messages: Annotated[list[Message], add_messages]
        user: str

    @tool
    def who(user: Annotated[str, InjectedState("user")]) -> str:
        """Who is it."""
        return user

    app = create_agent(ScriptedModel([ToolCall("1", "who"), "end"]), [who], state_schema=State)
    assert texts(run(app, {"messages": ["go"], "user": "eve"})) == ["go", "", "eve", "end"]


def test_tools_can_read_the_store(run: Runner) -> None:
    store = InMemoryStore()
    store.put(("users",), "eve", {"likes": "tea"})

    @tool
    def likes(store) -> str:  # type: ignore[no-untyped-def]  # injected by its name
        """Return what the user likes."""
        return store.get(("users",), "eve").value["likes"]

    app = create_agent(ScriptedModel([ToolCall("1", "likes"), "end"]), [likes], store=store)
    assert texts(run(app)) == ["go", "", "tea", "end"]


def test_a_tool_with_return_direct_ends_the_loop(run: Runner) -> None:
    final = tool(name="final", return_direct=True)(lambda: "the answer")
    model = ScriptedModel([ToolCall("1", "final"), "never"])
    assert texts(run(create_agent(model, [final]))) == ["go", "", "the answer"]
    assert len(model.requests) == 1


def test_tools_can_be_given_as_a_tool_node(run: Runner) -> None:
    def fails() -> None:
        """Fail."""
        raise KeyError("row")

    app = create_agent(ScriptedModel([ToolCall("1", "fails"), "end"]), ToolNode([fails], handle_tool_errors="sorry"))
    assert texts(run(app)) == ["go", "", "sorry", "end"]


@pytest.mark.parametrize("limit", range(1, 10))
def test_the_answer_reports_that_no_steps_are_left(limit: int, run: Runner) -> None:
    """GraphRecursionError would lose the results so far."""
    model = ScriptedModel([work_calls(1)], repeat_last=True)
    messages = run(create_agent(model, [work]), recursion_limit=limit)
    assert messages[-1].text == "Sorry, I need more steps to process this request."
    answered = {message.tool_call_id for message in messages if message.role == "tool"}
    assert {call.id for message in messages for call in message.tool_calls} <= answered


def test_a_busy_model_is_called_again(run: Runner) -> None:
    model = ScriptedModel([work_calls(1), ModelUnavailable("busy"), "end"])
    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    assert texts(run(create_agent(model, [work], retries=policy))) == ["go", "", "10", "end"]


def test_unanswered_calls_get_results_in_the_request(run: Runner) -> None:
    model = ScriptedModel(["x"])
    dangling = Message("", role="assistant", tool_calls=tuple(work_calls(1)))
    messages = run(create_agent(model, [work]), {"messages": [Message("hi"), dangling, Message("again")]})
    assert [message.role for message in model.requests[0].messages] == ["user", "assistant", "tool", "user"]
    assert len(messages) == 4


def test_a_run_can_be_interrupted_before_the_tools(run: Runner) -> None:
    model = ScriptedModel([work_calls(1), "end"])
    app = create_agent(model, [work], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    assert texts(run(app, thread_id="t")) == ["go", ""]
    assert texts(app.invoke(None, thread_id="t")["messages"]) == ["go", "", "10", "end"]


def test_tokens_and_tool_results_are_streamed() -> None:
    app = create_agent(ScriptedModel([work_calls(1), "one two"]), [work], name="Ann")
    parts = [
        (message.name, message.text)
        for message, _ in app.stream({"messages": ["go"]}, stream_mode="messages")
        if message.text
    ]
    assert parts == [("work", "10"), ("Ann", "one"), ("Ann", " two")]


def test_settings_reach_the_model(run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(create_agent(model, settings={"temperature": 0.5}))
    assert model.requests[0].temperature == 0.5


@pytest.mark.parametrize("name", ["temprature", "messages", "system"])
def test_unknown_settings_are_refused_at_creation(name: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        create_agent(ScriptedModel([]), settings={name: 1})


def test_create_react_agent_is_an_alias_that_warns_of_versions() -> None:
    assert create_react_agent(ScriptedModel(["x"]), [work]).invoke({"messages": ["go"]})["messages"][-1].text == "x"
    with pytest.warns(UserWarning, match="no version 'v1'"):
        create_react_agent(ScriptedModel(["x"]), [work], version="v1")


def test_a_thousand_calls_of_one_answer_are_executed_in_order(run: Runner) -> None:
    def answer(request: ModelRequest) -> Any:
        return "end" if request.messages[-1].role == "tool" else work_calls(*range(1000))

    messages = run(create_agent(ScriptedModel(answer), [work], checkpointer=InMemorySaver()), thread_id="t")
    assert texts(messages)[2:-1] == [str(number * 10) for number in range(1000)]
