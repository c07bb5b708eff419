"""Tools that hand over to another agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from statewright.agents import ToolContext, create_agent
from statewright.agents.prebuilt.handoff import create_handoff_tool, handoff_tools, handoffs_in, tool_name
from statewright.errors import InvalidConfig, ToolError
from statewright.graph import STOP
from statewright.messages import Message, RemoveMessage
from statewright.models import ScriptedModel


def call_handoff(arguments: dict[str, Any], **options: Any) -> Any:
    handoff_tool = create_handoff_tool(agent_name="Data Team", **options)
    return asyncio.run(handoff_tool.call(arguments, context=ToolContext(tool_call_id="7")))


def test_a_tool_is_named_after_its_agent() -> None:
    assert create_handoff_tool(agent_name="Data Team").name == "transfer_to_data_team"
    assert tool_name("Zürich", "to") == "to_z_rich"


def test_a_handoff_ends_the_run_with_a_result_that_names_the_agent() -> None:
    command = call_handoff({})
    (message,) = command.update["messages"]

    assert command.goto == STOP
    assert (message.role, message.tool_call_id, message.name) == ("tool", "7", "transfer_to_data_team")
    assert message.metadata == {"handoff": {"to": "Data Team"}}


def test_a_task_is_accepted_only_with_takes_task() -> None:
    (message,) = call_handoff({"task": "count"}, takes_task=True).update["messages"]

    assert message.text == "Handed over to Data Team: count"
    assert handoffs_in([message])[0].task == "count"
    with pytest.raises(ToolError, match="task"):
        call_handoff({"task": "count"})


def test_the_model_receives_the_description_of_the_task() -> None:
    parameters = create_handoff_tool(agent_name="a", takes_task=True).parameters

    assert "required" not in parameters or "task" not in parameters["required"]
    assert "sees only this" in parameters["properties"]["task"]["description"]
    assert create_handoff_tool(agent_name="a").parameters["properties"] == {}


def test_only_handoffs_at_the_end_of_a_run_are_found() -> None:
    def handoff(to: str) -> Message:
        return Message("", "tool", metadata={"handoff": {"to": to}})

    handoffs = handoffs_in(
        [
            handoff("early"),
            Message("", "assistant"),
            handoff("a"),
            RemoveMessage("x"),
            Message("", "tool"),
            handoff("b"),
        ]
    )
    assert [item.to for item in handoffs] == ["a", "b"]
    assert handoffs_in([handoff("a"), Message("the end", "assistant")]) == []


def test_handoff_tools_of_an_agent_are_found() -> None:
    own = create_handoff_tool(agent_name="b")

    def look() -> str:
        """Look."""
        return ""

    assert list(handoff_tools(create_agent(ScriptedModel([]), [look, own]))) == [own]


def test_an_invalid_tool_name_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="tool that hands over to 'a' cannot be created"):
        create_handoff_tool(agent_name="a", name="a:b")
