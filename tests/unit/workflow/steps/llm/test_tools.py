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

EXECUTION = cast(Any, SimpleNamespace(context=lambda config, **_: StepContext(config=config)))


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


def test_tools_with_names_are_made_when_they_are_wanted() -> None:
    named = read_tools({"w": 3, "v": weather})
    assert (list(named), len(named), "w" in named, "x" in named) == (["w", "v"], 2, True, False)
    assert as_tool(named["v"], "v").description == "The weather."


def test_a_tool_with_the_words_of_the_definition() -> None:
    given = read_tools([weather])["weather"]
    bare, described = DeclaredTool(LlmTool(name="w"), given), DeclaredTool(LlmTool(name="w", description="D"), given)
    assert (bare.name, bare.description, described.description) == ("w", "The weather.", "D")
    assert bare.parameters == given.parameters
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
def test_what_a_handler_answers_is_told(answer: Any, expected: Any) -> None:
    assert call(handler_tool(lambda ctx: answer), {}) == expected


def test_handlers_get_the_arguments() -> None:
    async def handler(ctx: StepContext, step: Any) -> StepResult:
        return StepResult(output={"got": [ctx.config, step]})

    assert call(handler_tool(handler), {"x": 1}) == {"got": [{"x": 1}, "the step"]}


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (StepResult("failed", error=StepFailure("no")), ToolError, "no"),
        (StepResult("failed"), ToolError, "h failed"),
        (StepResult("waiting", signal_type="x"), ToolError, "which tools do not support"),
        ("text", InvalidUpdateError, "The handler of step 'h'"),
    ],
)
def test_what_no_tool_may_answer(answer: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(handler_tool(lambda ctx: answer), {})
