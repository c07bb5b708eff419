"""Tool states."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from statewright.agents import ToolContext, ToolFunction
from statewright.errors import MissingApiKey, RoutingError, ToolError
from statewright.graph import Runtime
from statewright.workflow.states.engine.lineage import Lineage
from statewright.workflow.states.handlers.call import Call, Outcome
from statewright.workflow.states.handlers.tool import ToolStateHandler, truncate_result
from statewright.workflow.states.language.model import McpServer, State, Tool
from statewright.workflow.states.language.transition import Next
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.mcp.resolve import ServerResolver
from statewright.workflow.states.tools import Integrations, ToolRegistry

SECRET = "s3cret-value"
Values = dict[str, Any]


class Host:
    """The part of a runtime's host that tools use."""

    def __init__(self) -> None:
        self.streamed: list[Any] = []
        self.stream_writer = self.streamed.append

    @property
    def execution_info(self) -> Any:
        return self

    task_id = "task-1"


def echo(path: str | None = None, limit: int | None = None, body: Any = None) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: value for name, value in locals().items() if value is not None}


def make_handler(
    definition: Tool, registry: ToolRegistry, integrations: Integrations | None = None
) -> ToolStateHandler:
    integrations = integrations or Integrations()
    servers = McpServers(ServerResolver(registry.settings, integrations, {}))
    return ToolStateHandler(definition, registry, integrations, servers)


def perform(
    function: Callable[..., Any] = echo,
    *,
    tool: Values | None = None,
    tool_args: Values | None = None,
    context: Values | None = None,
    task: Any = "",
    integrations: Integrations | None = None,
    host: Host | None = None,
    **options: Any,
) -> Any:
    registry = ToolRegistry()
    registry.register(ToolFunction(function, name="work", **options))
    state = State(id="fetch", next=Next(state_id="end"), tool_id="t", tool_args=tool_args)
    call = Call(
        state=state,
        prompt="",
        context=context or {},
        scope={**(context or {}), "task": task},
        history=(),
        item=None,
        has_item=False,
        number=0,
        lineage=Lineage(None),
        runtime=Runtime(host or Host()),  # pyright: ignore[reportArgumentType]
    )
    definition = Tool(id="t", tool="work", **(tool or {}))
    outcome = asyncio.run(make_handler(definition, registry, integrations).perform(call))
    assert isinstance(outcome, Outcome)
    return outcome.output


# -- arguments


def test_2_7_arguments_of_the_state_replace_those_of_the_tool() -> None:
    assert perform(tool={"tool_args": {"path": "a", "limit": 1}}, tool_args={"path": "b"}) == {"path": "b"}
    assert perform(tool={"tool_args": {"path": "a", "limit": 1}}) == {"path": "a", "limit": 1}


def test_2_7_without_arguments_all_parameters_are_filled_from_the_context() -> None:
    assert perform(context={"path": "a", "limit": 3, "other": 1}) == {"path": "a", "limit": 3}


def test_2_7_explicit_values_override_the_context() -> None:
    assert perform(tool_args={"path": "/lit"}, context={"path": "/evil"}) == {"path": "/lit"}


def test_4_1_3_an_undefined_placeholder_is_not_replaced_by_the_context() -> None:
    output = perform(
        tool_args={"path": "{{nowhere}}", "limit": "{{null}}"}, context={"path": "x", "limit": 9, "null": None}
    )
    assert output == {"path": "{{nowhere}}"}


def test_2_7_absent_and_null_arguments_are_filled_from_the_context() -> None:
    output = perform(tool_args={"path": None, "body": "x"}, context={"path": "a", "limit": 2})
    assert output == {"path": "a", "limit": 2, "body": "x"}


def test_2_7_none_values_are_dropped() -> None:
    assert perform(tool_args={"path": None, "limit": None}, context={"path": None}) == {}


def test_2_3_6_templates_in_nested_maps_and_lists_keep_types() -> None:
    body = {"{{a}}": ["{{lst}}", {"deep": "n is {{n}}"}], "whole": "{{n}}", "task": "{{task}}"}
    output = perform(tool_args={"body": body}, context={"lst": [1, 2], "n": 5}, task={"id": 1})
    assert output == {"body": {"{{a}}": [[1, 2], {"deep": "n is 5"}], "whole": 5, "task": {"id": 1}}}


def test_an_undefined_placeholder_is_reported_once_if_rendering_restarts_on_a_thread() -> None:
    host = Host()
    perform(tool_args={"path": "{{nowhere}}", "body": "{{big|join}}"}, context={"big": ["a"] * 50_000}, host=host)
    assert [event["placeholder"] for event in host.streamed] == ["{{nowhere}}"]


def test_2_3_5_values_are_not_rendered_as_templates() -> None:
    assert perform(tool_args={"path": "<{{x}}>"}, context={"x": "{{y}}", "y": "stolen"}) == {"path": "<{{y}}>"}
    assert perform(context={"path": "{{y}}", "y": "stolen"}) == {"path": "{{y}}"}


def test_2_7_input_key_limits_the_scope() -> None:
    context = {"path": "outer", "deep": {"list": [{"path": "inner", "n": 4}]}, "n": 1}
    output = perform(tool={"input_key": "deep.list[0]"}, tool_args={"limit": "{{n}}"}, context=context)
    assert output == {"path": "inner", "limit": 4}
    assert perform(tool={"input_key": "deep.list[0]"}, tool_args={"body": "{{task}}"}, context=context, task="t") == {
        "path": "inner",
        "body": "{{task}}",
    }


def test_2_7_an_input_key_to_a_missing_value_is_an_error() -> None:
    with pytest.raises(RoutingError, match="does not exist"):
        perform(tool={"input_key": "a.b"}, context={"a": {}})
    with pytest.raises(ToolError, match=r"input_key 'a' of tool 't' refers to '5'. It must refer to a map"):
        perform(tool={"input_key": "a"}, context={"a": 5})


def test_2_7_the_error_for_invalid_arguments_names_the_expected_ones() -> None:
    with pytest.raises(ToolError, match=r"'limit' is 'soon': .* It takes path"):
        perform(tool_args={"limit": "soon"})
    with pytest.raises(ToolError, match="argument 'unused' does not exist"):
        perform(tool_args={"unused": "foobar"})


def test_4_1_3_excluded_arguments_are_not_filled_from_the_context() -> None:
    context = {"path": "a", "limit": 9}
    assert perform(context=context, never_from_context=["limit"]) == {"path": "a"}
    assert perform(context=context, tool_args={"limit": "{{limit}}"}, never_from_context=["limit"])["limit"] == 9


# -- results


def test_2_7_results_keep_their_type() -> None:
    for result in ("text", '{"a": 1}', 5, True, None, {"a": None}, [1, {"b": 1.5}]):

        def answer(value: Any = result) -> Any:
            return value

        assert perform(answer) == result


@pytest.mark.parametrize(
    ("pointer", "part"),
    [("", None), ("/a/b/0", 1), ("/a/b", [1, 2]), ("/text/c", "d"), ("/text/", {"c": "d"}), ("/text", '{"c": "d"}')],
)
def test_2_7_a_pointer_selects_a_part_of_the_result(pointer: str, part: Any) -> None:
    result = {"a": {"b": [1, 2]}, "text": '{"c": "d"}'}

    def answer() -> Any:
        return result

    def answer_text() -> str:
        return json.dumps(result)

    expected = result if pointer == "" else part
    assert perform(answer, tool={"tool_result_json_pointer": pointer}) == expected
    if pointer:
        assert perform(answer_text, tool={"tool_result_json_pointer": pointer}) == expected


def test_2_7_a_pointer_to_a_missing_value_is_an_error() -> None:
    with pytest.raises(RoutingError, match="tool_result_json_pointer of tool 't': The pointer '/b' does not exist"):
        perform(lambda: {"a": 1}, tool={"tool_result_json_pointer": "/b"})


def test_2_7_placeholders_in_a_result_are_filled_in_on_request() -> None:
    def answer() -> str:
        return "Hello {{user.name}} and {{nobody}}"

    context = {"user": {"name": "Ada"}}
    assert perform(answer, context=context) == "Hello {{user.name}} and {{nobody}}"
    output = perform(answer, tool={"resolve_dynamic_values_in_response": True}, context=context)
    assert output == "Hello Ada and {{nobody}}"


def test_4_1_1_blocks_in_a_result_are_not_executed() -> None:
    hostile = "{% for x in range(9) %}{{x}}{% endfor %} {{''.__class__.__mro__}} {{secret}}"
    output = perform(lambda: hostile, tool={"resolve_dynamic_values_in_response": True}, context={"a": "{{b}}"})
    assert output == hostile


def test_2_7_a_token_limit_truncates_the_result_with_a_note() -> None:
    assert perform(lambda: "x" * 40, tool={"tokens_size_limit": 10}) == "x" * 40
    assert perform(lambda: "x" * 41, tool={"tokens_size_limit": 10}) == (
        "x" * 40 + "\n[Cut off after 40 of 41 characters because tokens_size_limit is 10.]"
    )
    assert perform(lambda: {"a": "x"}, tool={"tokens_size_limit": 10}) == {"a": "x"}
    assert perform(lambda: {"a": "x" * 50}, tool={"tokens_size_limit": 2}).startswith('{"a": "x\n[Cut off')
    assert perform(lambda: "x" * 41) == "x" * 41


# -- credentials, traces and missing tools


def credentials(context: ToolContext) -> str:
    return f"{context.idempotency_key}: {context.credentials['token']}"


def refuse(context: ToolContext) -> str:
    raise ValueError(f"bad token {context.credentials['token']}")


def test_2_7_an_integration_is_found_by_its_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", SECRET)
    integrations = Integrations({"git": {"token": "env:GIT_TOKEN"}})

    def length(context: ToolContext) -> int:
        return len(context.credentials["token"])

    assert perform(length, tool={"integration_alias": "git"}, integrations=integrations) == len(SECRET)
    with pytest.raises(ToolError, match=r"Integration 'gitt' does not exist. Did you mean 'git'"):
        perform(length, tool={"integration_alias": "gitt"}, integrations=integrations)
    monkeypatch.delenv("GIT_TOKEN")
    with pytest.raises(MissingApiKey, match="GIT_TOKEN"):
        perform(length, tool={"integration_alias": "git"}, integrations=integrations)


def test_4_1_11_credentials_are_visible_only_to_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", SECRET)
    integrations = Integrations({"git": {"token": "env:GIT_TOKEN"}})
    tool = {"integration_alias": "git", "trace": True, "resolve_dynamic_values_in_response": True}
    host = Host()
    assert perform(credentials, tool=tool, integrations=integrations, host=host) == "task-1: ***"
    with pytest.raises(ToolError, match=r"ValueError: bad token \*\*\*"):
        perform(refuse, tool=tool, integrations=integrations, host=host)
    arguments = {"body": "{{token}} {{credentials.token}} {{integrations.git.token}} {{git.token}}"}
    assert perform(tool=tool, tool_args=arguments, integrations=integrations, host=host) == arguments
    assert len([event for event in host.streamed if event["kind"] == "tool"]) == 6
    unresolved = [event["placeholder"] for event in host.streamed if event["kind"] == "template"]
    assert unresolved == arguments["body"].split()
    assert SECRET not in repr(host.streamed)


def test_1_3_a_trace_is_written_to_the_stream() -> None:
    host = Host()
    perform(tool={"trace": True}, tool_args={"path": "a"}, host=host)
    start = {"kind": "tool", "state": "fetch", "tool": "work"}
    assert host.streamed == [
        {**start, "event": "called", "arguments": {"path": "a"}},
        {**start, "event": "answered", "result": '{"path": "a"}'},
    ]
    with pytest.raises(ZeroDivisionError):
        perform(lambda: 1 // 0, tool={"trace": True}, host=host)
    assert host.streamed[-1] == {
        **start,
        "event": "failed",
        "error": "ZeroDivisionError: integer division or modulo by zero",
    }
    quiet = Host()
    perform(host=quiet)
    assert quiet.streamed == []


def test_1_6_a_tool_of_an_unusable_mcp_server_fails() -> None:
    config = {"command": "npx", "args": ["files"]}
    with pytest.raises(ToolError, match=r"MCP server 'files' is disabled\. Write enabled: true"):
        perform(tool={"mcp_server": McpServer("files", enabled=False, config=config)})
    with pytest.raises(ToolError, match=r'(?s)program .npx. is not allowed.*mcp_commands = \["npx"\]'):
        perform(tool={"mcp_server": McpServer("files", config=config)})


def test_1_6_mcp_results_have_their_own_limit() -> None:
    limited = McpServer("files", settings={"tools_tokens_size_limit": 2})
    assert truncate_result("x" * 9, Tool(id="t", tool="f", mcp_server=limited)) == (
        "x" * 8 + "\n[Cut off after 8 of 9 characters because tools_tokens_size_limit is 2.]"
    )
    assert truncate_result("x" * 9, Tool(id="t", tool="f", mcp_server=limited, tokens_size_limit=3)) == "x" * 9


def test_the_error_for_a_missing_tool_contains_a_snippet_to_add() -> None:
    work = make_handler(Tool(id="t", tool="_read_graph"), ToolRegistry())
    with pytest.raises(ToolError, match='_read_graph = "my_tools:read_graph"'):
        asyncio.run(work.perform(None))  # pyright: ignore[reportArgumentType]
