"""The hooks of an agent, and when they are called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statewright.agents import Agent, AgentResult, Lifecycle, Network, Prompt, RoutingAgent
from statewright.errors import InvalidConfig
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.models.conversation.prepare import YOUR_TURN


def work(number: int) -> int:
    """Do it."""
    return number * 10


CALLS = [ToolCall("1", "work", {"number": 1})]


def test_hooks_are_called_in_order() -> None:
    calls: list[Any] = []
    lifecycle = Lifecycle(
        enabled=lambda agent: calls.append(f"enabled {agent.name}") is None,
        on_start=lambda history: calls.append(f"start {len(history)}"),
        on_response=lambda result: calls.append(f"response {len(result.messages)}"),
        on_finish=lambda result: calls.append(f"finish {len(result.messages)}"),
    )
    model = ScriptedModel([CALLS, "end"])
    agent = Agent("a", model=model, tools=[work], max_iter=5, lifecycle=lifecycle)
    agent.run("go")
    assert [call for call in calls if not call.startswith("enabled")] == [
        "start 1",
        "response 1",
        "start 3",
        "response 1",
        "finish 3",
    ]
    assert "enabled a" in calls


def test_hooks_can_be_coroutine_functions() -> None:
    async def on_start(prompt: Any, history: Any) -> Prompt:
        return Prompt([*prompt, Message("Be brief.", role="system")], history)

    async def on_finish(result: AgentResult) -> AgentResult:
        return replace(result, messages=[*result.messages, Message("more", role="assistant")])

    model = ScriptedModel(["x"])
    lifecycle = Lifecycle(on_start=on_start, on_finish=on_finish)
    result = Agent("a", model=model, system="Help.", lifecycle=lifecycle).run("go")
    assert model.requests[0].system == "Help.\n\nBe brief."
    assert [message.text for message in result.messages] == ["x", "more"]


def test_on_start_can_change_the_history() -> None:
    model = ScriptedModel(["x"])
    lifecycle = Lifecycle(on_start=lambda prompt, history, input: Prompt(prompt, [Message(f"{input}!")]))  # noqa: A006
    Agent("a", model=model, lifecycle=lifecycle).run("go")
    assert [message.text for message in model.requests[0].messages] == ["go!"]


def test_on_start_can_stop_the_agent() -> None:
    model = ScriptedModel([])
    lifecycle = Lifecycle(on_start=lambda prompt, history: Prompt(prompt, history, stop=True))
    result = Agent("a", model=model, lifecycle=lifecycle).run("go")
    assert (result.messages, result.requests, result.stop_reason) == ([], 0, "stopped")
    assert model.requests == []


def test_on_start_can_stop_the_agent_after_the_first_answer() -> None:
    def on_start(prompt: Any, history: Any) -> Prompt:
        return Prompt(prompt, history, stop=len(history) > 1)

    model = ScriptedModel([CALLS])
    result = Agent("a", model=model, tools=[work], max_iter=5, lifecycle=Lifecycle(on_start=on_start)).run("go")
    assert [message.text for message in result.messages] == ["", "10"]
    assert result.stop_reason == "stopped"


def test_tool_calls_changed_by_on_response_are_executed() -> None:
    def on_response(result: AgentResult) -> AgentResult | None:
        if not result.messages[0].tool_calls:
            return None
        other = (ToolCall("9", "work", {"number": 9}),)
        return replace(result, messages=[replace(result.messages[0], tool_calls=other)])

    model = ScriptedModel([CALLS, "end"])
    agent = Agent("a", model=model, tools=[work], max_iter=2, lifecycle=Lifecycle(on_response=on_response))
    result = agent.run("go")
    assert [(call.tool_call_id, call.text) for call in result.tool_calls] == [("9", "90")]


def test_tool_calls_removed_by_on_response_are_not_executed() -> None:
    def on_response(result: AgentResult) -> AgentResult:
        return replace(result, messages=[Message("I would rather not", role="assistant")])

    agent = Agent("a", model=ScriptedModel([CALLS]), tools=[work], lifecycle=Lifecycle(on_response=on_response))
    result = agent.run("go")
    assert [message.text for message in result.messages] == ["I would rather not"]


def test_on_finish_can_replace_the_saved_messages() -> None:
    lifecycle = Lifecycle(on_finish=lambda result: replace(result, messages=[Message("short", role="assistant")]))
    first = Agent("a", model=ScriptedModel(["a long story"]), lifecycle=lifecycle)
    model = ScriptedModel(["x"])
    second = Agent("b", model=model)
    ended = Network("n", agents=[first, second], router=lambda call_count: [first, second, None][call_count]).run("go")
    assert ended.results[0].text == "short"
    assert [message.text for message in model.requests[0].messages] == ["go", "short", YOUR_TURN]


@pytest.mark.parametrize("hook", ["on_start", "on_response", "on_finish", "on_route"])
def test_hooks_can_write_to_the_data(hook: str) -> None:
    def write(network: Any, state: Any) -> None:
        assert network.state is state
        state.data.calls.append(hook)

    lifecycle = Lifecycle(**{hook: write})
    agent = Agent("a", model=ScriptedModel(["x"]), lifecycle=lifecycle)
    router: Any = RoutingAgent("R", model=ScriptedModel(["r"]), lifecycle=lifecycle) if hook == "on_route" else None
    network = Network(
        "n", agents=[agent], router=router or (lambda call_count: None if call_count else agent), state={"calls": []}
    )
    assert network.run("go").state.data.calls == [hook]


@pytest.mark.parametrize("hook", ["on_start", "on_response", "on_finish"])
@pytest.mark.parametrize("answer", ["text", 3, ["list"], Message("m"), {"prompt": []}, False])
def test_an_invalid_answer_of_a_hook_is_an_error_that_names_the_agent(hook: str, answer: Any) -> None:
    lifecycle = Lifecycle(**{hook: lambda: answer})
    with pytest.raises(InvalidConfig, match=r"agent 'Ann' returned .*Return an? [\w ]+, or None"):
        Agent("Ann", model=ScriptedModel(["x"]), lifecycle=lifecycle).run("go")


@pytest.mark.parametrize("hook", ["enabled", "on_start", "on_response", "on_finish"])
def test_an_exception_of_a_hook_is_raised(hook: str) -> None:
    def fail() -> None:
        raise ZeroDivisionError("hook")

    model = ScriptedModel(["x"], repeat_last=True)
    with pytest.raises(ZeroDivisionError, match="hook"):
        Agent("a", model=model, lifecycle=Lifecycle(**{hook: fail})).run("go")


@pytest.mark.parametrize("prompt", [Prompt(None, []), Prompt([], None), Prompt(["text"], []), Prompt([], ["text"])])  # type: ignore[arg-type, list-item]
def test_a_prompt_without_messages_is_an_error_that_names_the_agent(prompt: Prompt) -> None:
    agent = Agent("Ann", model=ScriptedModel(["x"]), retries=0, lifecycle=Lifecycle(on_start=lambda: prompt))
    with pytest.raises(InvalidConfig, match="on_start of agent 'Ann'"):
        agent.run("go")


def test_disabled_agents_are_not_available() -> None:
    seen: list[Any] = []
    shy = Agent("shy", model=ScriptedModel(["x"]), lifecycle=Lifecycle(enabled=lambda network: False))
    open_ = Agent("open", model=ScriptedModel(["x"]), lifecycle=Lifecycle(enabled=lambda state: state.data.open))

    def router(network: Any) -> None:
        seen.append([agent.name for agent in network.available_agents])

    Network("n", agents=[shy, open_], router=router, state={"open": True}).run("go")
    assert seen == [["open"]]


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_enabled_cannot_be_a_coroutine_function() -> None:
    async def enabled() -> bool:
        return False

    with pytest.raises(InvalidConfig, match="enabled"):
        Agent("a", model=ScriptedModel(["x"]), lifecycle=Lifecycle(enabled=enabled)).run("go")
