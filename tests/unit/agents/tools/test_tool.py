"""The context of a call."""

from __future__ import annotations

from statewright.agents import Credentials, Tool, ToolContext, ToolFunction


def test_a_context_is_empty_by_default() -> None:
    context = ToolContext()
    assert (len(context.credentials), context.idempotency_key) == (0, None)
    context.stream_writer("ignored")


def test_4_1_11_the_repr_of_a_context_shows_no_credentials() -> None:
    assert "s3cret-value" not in repr(ToolContext(Credentials("git", {"token": "s3cret-value"})))


def test_a_tool_function_implements_the_port() -> None:
    tool: Tool = ToolFunction(lambda: None, name="work")
    assert tool.name == "work"
