"""The options of a tool."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from statewright.agents import ToolOptions, check_name, tool
from statewright.errors import ToolError


@pytest.mark.parametrize("name", ["a", "_a", "read-file", "Read_2", "a" * 64])
def test_valid_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "2a", "-a", "a b", "a.b", "ä", "a" * 65, "a\n", " a", "a/b"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ToolError, match=r"is not a valid tool name. Use up to 64"):
        check_name(name)


@pytest.mark.parametrize("name", ["files:read", ":"])
def test_names_with_a_colon_are_reserved_for_mcp(name: str) -> None:
    with pytest.raises(ToolError, match="reserved for tools of MCP servers"):
        check_name(name)


def test_options_have_defaults_and_are_frozen() -> None:
    options = ToolOptions()
    assert (options.approve, options.timeout, options.strict, options.return_direct) == (False, None, None, False)
    with pytest.raises(FrozenInstanceError):
        options.timeout = 1.0  # type: ignore[misc]


def test_the_decorator_sets_the_options() -> None:
    decorated = tool(name="other", description="d", approve=True, timeout=2.0, strict=True, return_direct=True)(
        lambda: None
    )
    assert (decorated.name, decorated.description) == ("other", "d")
    assert decorated.options == ToolOptions(approve=True, timeout=2.0, strict=True, return_direct=True)
