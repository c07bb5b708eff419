"""Functions as tools."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from statewright.agents import Credentials, ToolContext, ToolFunction, check_name
from statewright.errors import ToolError


def call(tool: ToolFunction, context: ToolContext | None = None, **arguments: Any) -> Any:
    return asyncio.run(tool.call(arguments, context=context or ToolContext()))


def add(one: int, other: int = 1) -> int:
    """Add two numbers.

    Args:
        one: The first.
    """
    return one + other


async def add_later(one: int, other: int = 1) -> int:
    await asyncio.sleep(0)
    return one + other


def test_name_description_and_parameters_come_from_the_function() -> None:
    tool = ToolFunction(add)
    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.parameters["properties"]["one"] == {"type": "integer", "description": "The first."}
    assert tool.never_from_context == frozenset()
    assert "add" in repr(tool)


def test_name_and_description_can_be_set() -> None:
    tool = ToolFunction(add, name="sum-up", description="Adds.", never_from_context=["other"])
    assert (tool.name, tool.description, tool.never_from_context) == ("sum-up", "Adds.", {"other"})


def test_plain_functions_and_coroutines_are_called() -> None:
    assert call(ToolFunction(add), one="2") == 3
    assert call(ToolFunction(add_later), one=2, other=3) == 5


def test_partials_and_objects_are_called() -> None:
    class Adder:
        """Adds."""

        async def __call__(self, one: int) -> int:
            return one + 1

    assert call(ToolFunction(Adder()), one=1) == 2
    assert ToolFunction(Adder()).name == "Adder"
    assert call(ToolFunction(functools.partial(add_later, other=5), name="add"), one=1) == 6


def test_a_plain_function_does_not_block_the_loop() -> None:
    tool = ToolFunction(lambda: threading.current_thread().name, name="where")
    assert call(tool) != threading.current_thread().name


def test_an_argument_can_have_any_name() -> None:
    tool = ToolFunction(lambda function, self, args: f"{function}{self}{args}", name="odd")
    assert asyncio.run(tool.call({"function": 1, "self": 2, "args": 3}, context=ToolContext())) == "123"


def test_the_context_is_injected_if_a_parameter_has_its_type() -> None:
    def who(context: ToolContext) -> str:
        return f"{context.credentials.alias} {context.idempotency_key}"

    context = ToolContext(Credentials("jira", {}), idempotency_key="t1")
    assert call(ToolFunction(who), context) == "jira t1"
    with pytest.raises(ToolError, match="argument 'context' does not exist"):
        asyncio.run(ToolFunction(who).call({"context": 1}, context=context))


@pytest.mark.parametrize("name", ["a", "_read_file", "Read-File2", "a" * 64])
def test_valid_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "2a", "a b", "a" * 65, "é", "a.b"])
def test_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(ToolError, match="is not a valid tool name"):
        check_name(name)


def test_names_with_a_colon_are_reserved_for_mcp() -> None:
    with pytest.raises(ToolError, match="reserved for tools of MCP servers"):
        check_name("server:tool")
