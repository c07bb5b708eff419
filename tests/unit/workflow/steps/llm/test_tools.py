"""The tools of a step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.agents import ToolContext
from statewright.errors import InvalidConfig, InvalidUpdateError, ToolError
from statewright.workflow.steps import StepContext, StepFailure, StepResult
from statewright.workflow.steps.llm.resources import DeclaredTool, TaskTool, as_tool, read_tools
from statewright.workflow.steps.model import LlmTool

EXECUTION = cast(Any, SimpleNamespace(make_context=lambda config, **_: StepContext(config=config)))


def weather(city: str) -> str:
    """The weather."""
    return f"sun in {city}"


def call(tool: Any, arguments: dict[str, Any]) -> Any:
    return asyncio.run(tool.call(arguments, context=ToolContext()))


def handler_tool(handler: Any) -> TaskTool:
    return TaskTool(LlmTool(name="h"), handler, cast(Any, "the step"), EXECUTION)


def test_functions_become_tools() -> None:
    assert set(read_tools([weather])) == {"weather"}
    assert as_tool(read_tools({"w": weather})["w"], "w").name == "w"
    assert read_tools(read_tools([weather]).values()).keys() == {"weather"}
    assert read_tools(None) == {}
    with pytest.raises(InvalidConfig, match="The tool 'w' is 3"):
        as_tool(read_tools({"w": 3})["w"], "w")


def test_named_tools_are_created_on_use() -> None:
    tools = read_tools({"w": 3, "v": weather})
    assert (list(tools), len(tools), "w" in tools, "x" in tools) == (["w", "v"], 2, True, False)
    assert as_tool(tools["v"], "v").description == "The weather."


def test_a_declared_tool_may_override_the_description() -> None:
    tool = read_tools([weather])["weather"]
    bare, described = DeclaredTool(LlmTool(name="w"), tool), DeclaredTool(LlmTool(name="w", description="D"), tool)
    assert (bare.name, bare.description, described.description) == ("w", "The weather.", "D")
    assert bare.parameters == tool.parameters
    assert call(bare, {"city": "Rome"}) == "sun in Rome"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, None),
        (StepResult(output={"a": 1}, state_updates={"b": 1}), {"a": 1}),
        (StepResult(state_updates={"b": 1}), {"b": 1}),
        ({"output": {}}, {}),
    ],
)
def test_the_result_of_a_handler_is_returned_to_the_model(answer: Any, expected: Any) -> None:
    assert call(handler_tool(lambda ctx: answer), {}) == expected


def test_handlers_receive_the_arguments_and_the_step() -> None:
    async def handler(ctx: StepContext, step: Any) -> StepResult:
        return StepResult(output={"received": [ctx.config, step]})

    assert call(handler_tool(handler), {"x": 1}) == {"received": [{"x": 1}, "the step"]}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (StepResult("failed", error=StepFailure("no")), ToolError, "no"),
        (StepResult("failed"), ToolError, "h failed"),
        (StepResult("waiting", signal_type="x"), ToolError, "which tools do not support"),
        ("text", InvalidUpdateError, "The handler of step 'h'"),
    ],
)
def test_invalid_results_of_tools_are_rejected(answer: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(handler_tool(lambda ctx: answer), {})
