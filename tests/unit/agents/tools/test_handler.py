"""Tools made from a schema and a handler."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, Field

from statewright.agents import HandlerTool, ToolContext, create_tool
from statewright.errors import ToolError

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


class Model(BaseModel):
    city: str
    days: int = Field(default=1, ge=1)


@dataclass
class Plain:
    city: str
    days: int = 1


class Typed(TypedDict, total=False):
    city: str
    days: int


def call(tool: HandlerTool, arguments: dict[str, Any], **context: Any) -> Any:
    return asyncio.run(tool.call(arguments, context=ToolContext(**context)))


def make_tool(parameters: Any, handler: Any = lambda value: value) -> HandlerTool:
    return create_tool(name="weather", description="d", parameters=parameters, handler=handler)


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        (SCHEMA, {"city": "Rome", "days": 2}),
        (Model, Model(city="Rome", days=2)),
        (Plain, Plain("Rome", 2)),
        (Typed, {"city": "Rome", "days": 2}),
    ],
)
def test_the_handler_receives_one_value_of_the_parameters_class(parameters: Any, value: Any) -> None:
    tool = make_tool(parameters)
    assert call(tool, {"city": "Rome", "days": 2}) == value
    assert set(tool.parameters["properties"]) == {"city", "days"}


@pytest.mark.parametrize("parameters", [SCHEMA, Model])
@pytest.mark.parametrize(
    ("arguments", "where"), [({}, "city"), ({"city": 3}, "city"), ({"city": "Rome", "days": 0}, "days")]
)
def test_invalid_arguments_are_refused_without_calling_the_handler(
    parameters: Any, arguments: dict[str, Any], where: str
) -> None:
    calls: list[Any] = []
    with pytest.raises(ToolError, match=f"'weather' was called with wrong arguments.*{where}"):
        call(make_tool(parameters, calls.append), arguments)
    assert calls == []


def test_a_tool_without_parameters_takes_no_arguments() -> None:
    tool = make_tool(None, lambda value: value)
    assert call(tool, {}) == {}
    with pytest.raises(ToolError, match="more"):
        call(tool, {"more": 1})


def test_a_handler_with_the_context_is_called_in_order() -> None:
    def handler(value: Any, context: ToolContext) -> Any:
        return value, context.tool_call_id

    tool = make_tool(SCHEMA, handler)
    assert call(tool, {"city": "Rome"}, tool_call_id="c1") == ({"city": "Rome"}, "c1")
    assert (tool.in_order, make_tool(SCHEMA).in_order) == (True, False)


def test_a_handler_can_be_a_coroutine_function() -> None:
    async def handler(value: Any) -> str:
        await asyncio.sleep(0)
        return value["city"]

    assert call(make_tool(SCHEMA, handler), {"city": "Rome"}) == "Rome"


def test_an_exception_of_the_handler_is_raised() -> None:
    def handler(value: Any) -> None:
        raise LookupError("no weather")

    with pytest.raises(LookupError, match="no weather"):
        call(make_tool(SCHEMA, handler), {"city": "Rome"})


def test_the_arguments_of_the_call_are_not_changed() -> None:
    value = {"city": "Rome"}
    call(make_tool(SCHEMA, lambda arguments: arguments.update(days=9)), value)
    assert value == {"city": "Rome"}


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"properties": 3}, {"$ref": "#/nowhere"}])
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ToolError, match="'weather'"):
        make_tool(schema)


@pytest.mark.parametrize("name", ["", "a b", "files:read"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="is not a valid tool name"):
        create_tool(name=name, handler=lambda value: value)


def test_the_repr_shows_the_name() -> None:
    assert repr(make_tool(SCHEMA)) == "HandlerTool('weather')"
