"""The requests to the model of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.agents import Agent, Network, State, tool
from statewright.agents.loop.request import tool_specs
from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, OutputForm, ScriptedModel, ToolSpec


def work(number: int) -> int:
    """Do it."""
    return number


def request_of(agent: Agent, message: Any = "go", **options: Any) -> ModelRequest:
    agent.run(message, **options)
    return agent.model.requests[-1]


def test_tools_are_sent_with_their_schema() -> None:
    request = request_of(
        Agent("a", model=ScriptedModel(["x"]), tools=[work, tool(name="other", strict=True)(lambda: None)])
    )
    assert [(tool.name, tool.description, tool.strict) for tool in request.tools] == [
        ("work", "Do it.", None),
        ("other", "", True),
    ]
    assert request.tools[0].parameters["required"] == ["number"]


def test_a_tool_without_options_can_be_sent() -> None:
    class Bare:
        name, description, parameters = "bare", "d", {"type": "object"}

    assert tool_specs([Bare()]) == [ToolSpec("bare", "d", {"type": "object"})]


def test_the_metadata_of_a_request_name_the_agent() -> None:
    second = Agent("b", model=ScriptedModel(["x"]))
    first = Agent("a", model=ScriptedModel(["x"]))
    Network("n", agents=[first, second], router=lambda call_count: [first, second, None][call_count]).run("go")
    metadata = second.model.requests[0].metadata
    assert (metadata["agent"], metadata["call_count"]) == ("b", 1)


def test_settings_can_set_an_output_form() -> None:
    output = OutputForm({"type": "object"})
    assert request_of(Agent("a", model=ScriptedModel(["x"]), settings={"output": output})).output is output


def test_a_memory_strategy_selects_the_messages() -> None:
    class Last:
        async def select(self, messages: Sequence[Message], **rest: Any) -> list[Message]:
            return list(messages)[-1:]

    agent = Agent("a", model=ScriptedModel(["x"], repeat_last=True), memory=Last())
    network, saver = agent.alone(), InMemorySaver()
    for turn in ("one", "two"):
        network.run(turn, checkpointer=saver, thread_id="t")
    assert [message.text for message in agent.model.requests[1].messages] == ["two"]
    third_run = network.run("three", checkpointer=saver, thread_id="t")
    assert len(third_run.state.turns) == 6


def test_unanswered_calls_get_results_in_the_next_turn() -> None:
    dangling = Message("", role="assistant", tool_calls=(ToolCall("1", "work"),))
    request = request_of(Agent("a", model=ScriptedModel(["x"])), state=State(messages=["hi", dangling]))
    assert [(message.role, message.tool_call_id) for message in request.messages] == [
        ("user", None),
        ("assistant", None),
        ("tool", "1"),
        ("user", None),
    ]


def test_the_assistant_prefill_follows_the_conversation() -> None:
    request = request_of(Agent("a", model=ScriptedModel(["x"]), system="S", assistant="B"))
    assert request.system == "S"
    assert [message.text for message in request.messages] == ["go", "B"]


def test_the_formatter_of_the_network_formats_results() -> None:
    first, second = (Agent(name, model=ScriptedModel([f"I am {name}"])) for name in "ab")
    network = Network(
        "n",
        agents=[first, second],
        router=lambda call_count: [first, second, None][call_count],
        formatter=lambda result: [Message(f"{result.agent_name} said: {result.messages[-1].text}")],
    )
    network.run("go")
    assert [message.text for message in second.model.requests[0].messages] == ["user said: go", "a said: I am a"]


def test_a_missing_model_is_an_error_that_names_the_agent_and_the_network() -> None:
    with pytest.raises(ModelError, match="Agent 'a' of 'n' has no model"):
        Network("n", agents=[Agent("a")], router=lambda: "a").run("go")
