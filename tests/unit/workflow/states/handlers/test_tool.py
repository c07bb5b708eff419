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
Written = dict[str, Any]


class Host:
    """What stands behind a runtime, as far as tools ask for it."""

    def __init__(self) -> None:
        self.streamed: list[Any] = []
        self.stream_writer = self.streamed.append

    @property
    def execution_info(self) -> Any:
        return self

    task_id = "task-1"


def echo(path: str | None = None, limit: int | None = None, body: Any = None) -> dict[str, Any]:
    """What it was called with."""
    return {name: value for name, value in locals().items() if value is not None}


def make_handler(written: Tool, registry: ToolRegistry, integrations: Integrations | None = None) -> ToolStateHandler:
    integrations = integrations or Integrations()
    servers = McpServers(ServerResolver(registry.settings, integrations, {}))
    return ToolStateHandler(written, registry, integrations, servers)


def perform(
    function: Callable[..., Any] = echo,
    *,
    tool: Written | None = None,
    tool_args: Written | None = None,
    context: Written | None = None,
    task: Any = "",
    integrations: Integrations | None = None,
    host: Host | None = None,
    **never: Any,
) -> Any:
    registry = ToolRegistry()
    registry.register(ToolFunction(function, name="work", **never))
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
    written = Tool(id="t", tool="work", **(tool or {}))
    outcome = asyncio.run(make_handler(written, registry, integrations).perform(call))
    assert isinstance(outcome, Outcome)
    return outcome.output


# -- arguments


def test_2_7_arguments_of_the_state_take_the_place_of_those_of_the_tool() -> None:
    assert perform(tool={"tool_args": {"path": "a", "limit": 1}}, tool_args={"path": "b"}) == {"path": "b"}
    assert perform(tool={"tool_args": {"path": "a", "limit": 1}}) == {"path": "a", "limit": 1}


def test_2_7_without_arguments_every_parameter_comes_from_the_context() -> None:
    assert perform(context={"path": "a", "limit": 3, "other": 1}) == {"path": "a", "limit": 3}


def test_2_7_explicit_values_win_over_the_context() -> None:
    assert perform(tool_args={"path": "/lit"}, context={"path": "/evil"}) == {"path": "/lit"}


def test_4_1_3_a_template_that_finds_nothing_is_not_replaced_by_the_context() -> None:
    found = perform(
        tool_args={"path": "{{nowhere}}", "limit": "{{null}}"}, context={"path": "x", "limit": 9, "null": None}
    )
    assert found == {"path": "{{nowhere}}"}


def test_2_7_absent_and_null_arguments_are_filled_from_the_context() -> None:
    found = perform(tool_args={"path": None, "body": "x"}, context={"path": "a", "limit": 2})
    assert found == {"path": "a", "limit": 2, "body": "x"}


def test_2_7_none_values_are_dropped() -> None:
    assert perform(tool_args={"path": None, "limit": None}, context={"path": None}) == {}


def test_2_3_6_templates_in_nested_maps_and_lists_are_filled_in_and_keep_types() -> None:
    body = {"{{a}}": ["{{lst}}", {"deep": "n is {{n}}"}], "whole": "{{n}}", "task": "{{task}}"}
    found = perform(tool_args={"body": body}, context={"lst": [1, 2], "n": 5}, task={"id": 1})
    assert found == {"body": {"{{a}}": [[1, 2], {"deep": "n is 5"}], "whole": 5, "task": {"id": 1}}}


def test_an_undefined_placeholder_is_reported_once_if_the_rendering_is_restarted_on_a_thread() -> None:
    host = Host()
    perform(tool_args={"path": "{{nowhere}}", "body": "{{big|join}}"}, context={"big": ["a"] * 50_000}, host=host)
    assert [event["placeholder"] for event in host.streamed] == ["{{nowhere}}"]


def test_2_3_5_a_value_is_never_read_as_a_template() -> None:
    assert perform(tool_args={"path": "<{{x}}>"}, context={"x": "{{y}}", "y": "stolen"}) == {"path": "<{{y}}>"}
    assert perform(context={"path": "{{y}}", "y": "stolen"}) == {"path": "{{y}}"}


def test_2_7_input_key_limits_the_scope_to_a_part() -> None:
    context = {"path": "outer", "deep": {"list": [{"path": "inner", "n": 4}]}, "n": 1}
    found = perform(tool={"input_key": "deep.list[0]"}, tool_args={"limit": "{{n}}"}, context=context)
    assert found == {"path": "inner", "limit": 4}
    assert perform(tool={"input_key": "deep.list[0]"}, tool_args={"body": "{{task}}"}, context=context, task="t") == {
        "path": "inner",
        "body": "{{task}}",
    }


def test_2_7_an_input_key_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(RoutingError, match="does not exist"):
        perform(tool={"input_key": "a.b"}, context={"a": {}})
    with pytest.raises(ToolError, match=r"input_key 'a' of tool 't' refers to '5'. It must refer to a map"):
        perform(tool={"input_key": "a"}, context={"a": 5})


def test_2_7_a_mismatch_names_what_is_expected() -> None:
    with pytest.raises(ToolError, match=r"'limit' is 'soon': .* It takes path"):
        perform(tool_args={"limit": "soon"})
    with pytest.raises(ToolError, match="argument 'unused' does not exist"):
        perform(tool_args={"unused": "foobar"})


def test_4_1_3_some_arguments_are_never_taken_from_the_context() -> None:
    context = {"path": "a", "limit": 9}
    assert perform(context=context, never_from_context=["limit"]) == {"path": "a"}
    assert perform(context=context, tool_args={"limit": "{{limit}}"}, never_from_context=["limit"])["limit"] == 9


# -- results


def test_2_7_a_text_stays_and_values_keep_their_type() -> None:
    for result in ("text", '{"a": 1}', 5, True, None, {"a": None}, [1, {"b": 1.5}]):

        def answer(value: Any = result) -> Any:
            return value

        assert perform(answer) == result


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", None), ("/a/b/0", 1), ("/a/b", [1, 2]), ("/text/c", "d"), ("/text/", {"c": "d"}), ("/text", '{"c": "d"}')],
)
def test_2_7_a_pointer_takes_one_part_of_the_result(pointer: str, found: Any) -> None:
    result = {"a": {"b": [1, 2]}, "text": '{"c": "d"}'}

    def answer() -> Any:
        return result

    def answer_text() -> str:
        return json.dumps(result)

    expected = result if pointer == "" else found
    assert perform(answer, tool={"tool_result_json_pointer": pointer}) == expected
    if pointer:
        assert perform(answer_text, tool={"tool_result_json_pointer": pointer}) == expected


def test_2_7_a_pointer_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(RoutingError, match="tool_result_json_pointer of tool 't': The pointer '/b' does not exist"):
        perform(lambda: {"a": 1}, tool={"tool_result_json_pointer": "/b"})


def test_2_7_values_in_a_response_are_filled_in_where_that_is_wanted() -> None:
    def answer() -> str:
        return "Hello {{user.name}} and {{nobody}}"

    context = {"user": {"name": "Ada"}}
    assert perform(answer, context=context) == "Hello {{user.name}} and {{nobody}}"
    found = perform(answer, tool={"resolve_dynamic_values_in_response": True}, context=context)
    assert found == "Hello Ada and {{nobody}}"


def test_4_1_1_blocks_in_a_response_are_text() -> None:
    hostile = "{% for x in range(9) %}{{x}}{% endfor %} {{''.__class__.__mro__}} {{secret}}"
    found = perform(lambda: hostile, tool={"resolve_dynamic_values_in_response": True}, context={"a": "{{b}}"})
    assert found == hostile


def test_2_7_a_token_limit_cuts_and_says_so() -> None:
    assert perform(lambda: "x" * 40, tool={"tokens_size_limit": 10}) == "x" * 40
    assert perform(lambda: "x" * 41, tool={"tokens_size_limit": 10}) == (
        "x" * 40 + "\n[Cut off after 40 of 41 characters because tokens_size_limit is 10.]"
    )
    assert perform(lambda: {"a": "x"}, tool={"tokens_size_limit": 10}) == {"a": "x"}
    assert perform(lambda: {"a": "x" * 50}, tool={"tokens_size_limit": 2}).startswith('{"a": "x\n[Cut off')
    assert perform(lambda: "x" * 41) == "x" * 41


# -- credentials, traces, and what is not there


def credentials(context: ToolContext) -> str:
    return f"{context.idempotency_key}: {context.credentials['token']}"


def refuse(context: ToolContext) -> str:
    raise ValueError(f"bad token {context.credentials['token']}")


def test_2_7_an_integration_is_given_by_its_alias(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_4_1_11_credentials_are_nowhere_but_in_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", SECRET)
    integrations = Integrations({"git": {"token": "env:GIT_TOKEN"}})
    tool = {"integration_alias": "git", "trace": True, "resolve_dynamic_values_in_response": True}
    host = Host()
    assert perform(credentials, tool=tool, integrations=integrations, host=host) == "task-1: ***"
    with pytest.raises(ToolError, match=r"ValueError: bad token \*\*\*"):
        perform(refuse, tool=tool, integrations=integrations, host=host)
    asked = {"body": "{{token}} {{credentials.token}} {{integrations.git.token}} {{git.token}}"}
    assert perform(tool=tool, tool_args=asked, integrations=integrations, host=host) == asked
    assert len([event for event in host.streamed if event["kind"] == "tool"]) == 6
    unresolved = [event["placeholder"] for event in host.streamed if event["kind"] == "template"]
    assert unresolved == asked["body"].split()
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


def test_1_6_a_tool_of_a_server_fails_where_that_cannot_be_used() -> None:
    config = {"command": "npx", "args": ["files"]}
    with pytest.raises(ToolError, match=r"MCP server 'files' is disabled\. Write enabled: true"):
        perform(tool={"mcp_server": McpServer("files", enabled=False, config=config)})
    with pytest.raises(ToolError, match=r'(?s)program .npx. is not allowed.*mcp_commands = \["npx"\]'):
        perform(tool={"mcp_server": McpServer("files", config=config)})


def test_1_6_results_of_servers_have_a_limit_of_their_own() -> None:
    limited = McpServer("files", settings={"tools_tokens_size_limit": 2})
    assert truncate_result("x" * 9, Tool(id="t", tool="f", mcp_server=limited)) == (
        "x" * 8 + "\n[Cut off after 8 of 9 characters because tools_tokens_size_limit is 2.]"
    )
    assert truncate_result("x" * 9, Tool(id="t", tool="f", mcp_server=limited, tokens_size_limit=3)) == "x" * 9


def test_a_tool_that_is_nowhere_shows_the_snippet_to_add() -> None:
    work = make_handler(Tool(id="t", tool="_read_graph"), ToolRegistry())
    with pytest.raises(ToolError, match='_read_graph = "my_tools:read_graph"'):
        asyncio.run(work.perform(None))  # pyright: ignore[reportArgumentType]
