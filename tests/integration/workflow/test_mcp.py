"""Real MCP servers in workflows, with the permissions of the project."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.workflow.conftest import Compile, tool_calls
from tests.mcp_servers import HttpServer, eventually, is_alive

from statewright.errors import MissingApiKey, ToolError
from statewright.models import ScriptedModel

ALLOWED = '[tools]\nmcp_commands = ["statewright-test-server"]\n'
CONFIG = "{command: statewright-test-server, args: [stdio]}"


def assistant(servers: str) -> str:
    return f"""
assistants: [{{id: a, system_prompt: p, mcp_servers: [{servers}]}}]
states: [{{id: s, assistant_id: a, task: work, next: {{state_id: end}}}}]
"""


def tool_state(tool: str, server: str, args: str = "{}", **more: Any) -> str:
    settings = "".join(f", {name}: {value}" for name, value in more.items())
    return f"""
tools: [{{id: t, tool: {tool}, tool_args: {args}, mcp_server: {server}{settings}}}]
states: [{{id: s, tool_id: t, next: {{state_id: end}}}}]
"""


def count_starts(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


# -- assistants


def test_1_6_an_assistant_calls_the_tools_of_its_servers(flow: Compile, program: str) -> None:
    model = ScriptedModel([tool_calls(("e-add", {"a": 1, "b": 2}), ("e-say", {"text": "hi"})), "three"])
    app = flow(assistant(f"{{name: e, config: {CONFIG}, tools: [add, say]}}"), ALLOWED, models=model)
    assert app.invoke({"input": "go"})["result"] == "three"
    assert [tool.name for tool in model.requests[0].tools] == ["e-add", "e-say"]
    assert [message.text for message in model.requests[1].messages[-2:]] == ['{"result": 3}', "hi"]


def test_1_6_a_disabled_server_is_omitted(flow: Compile, program: str) -> None:
    model = ScriptedModel(["alone"])
    app = flow(assistant("{name: e, enabled: false, config: {command: anything}}"), models=model)
    assert app.invoke({"input": "go"})["result"] == "alone"
    assert not model.requests[0].tools


def test_1_6_the_model_receives_the_error_of_a_tool(flow: Compile, program: str) -> None:
    model = ScriptedModel([tool_calls(("e-fail", {"text": "no such file"})), "sorry"])
    app = flow(assistant(f"{{name: e, config: {CONFIG}}}"), ALLOWED, models=model)
    assert asyncio.run(app.ainvoke({"input": "go"}))["result"] == "sorry"
    assert "no such file" in model.requests[1].messages[-1].text


def test_1_6_an_assistant_can_have_a_server_process_for_each_call(flow: Compile, program: str) -> None:
    model = ScriptedModel([tool_calls(("apart-process", {}), ("apart-process", {})), "done"])
    config = f"{{command: {program}, args: [stdio], single_usage: true}}"
    app = flow(assistant(f"{{name: apart, config: {config}, tools: [process]}}"), ALLOWED, models=model)
    assert app.invoke({"input": "go"})["result"] == "done"
    processes = [json.loads(message.text)["result"] for message in model.requests[1].messages[-2:]]
    assert len(model.requests[0].tools) == 1
    assert not any(map(is_alive, processes))


def test_1_6_long_results_are_cut_at_the_limit_of_the_server(flow: Compile, program: str) -> None:
    model = ScriptedModel([tool_calls(("e-repeat", {"text": "x", "times": 99})), "done"])
    servers = f"{{name: e, config: {CONFIG}, tools_tokens_size_limit: 5}}"
    flow(assistant(servers), ALLOWED, models=model).invoke({"input": "go"})
    assert model.requests[1].messages[-1].text == "x" * 20 + "\n[Cut off after 20 of 99 characters.]"


def test_an_unavailable_server_of_an_assistant_is_an_error(flow: Compile) -> None:
    allowed = '[tools]\nmcp_commands = ["no-such-program"]\n'
    app = flow(assistant("{name: e, config: {command: no-such-program}}"), allowed, models=ScriptedModel([]))
    with pytest.raises(ToolError, match=r"MCP server 'e' \(command 'no-such-program'\) could not be started"):
        app.invoke({"input": "go"})


# -- tool states


def test_1_6_a_tool_state_calls_a_tool_by_its_name_on_the_server(flow: Compile, program: str) -> None:
    app = flow(tool_state("add", f"{{name: e, config: {CONFIG}}}", "{a: 1}"), ALLOWED)
    assert app.invoke({"input": '{"a": 7, "b": 2}'})["result"] == {"result": 3}


def test_1_6_the_older_notation_of_a_server_works(flow: Compile, program: str) -> None:
    app = flow(tool_state("say", f"{{name: e, command: {program}, arguments: stdio --port 0}}", "{text: hi}"), ALLOWED)
    assert app.invoke({"input": "go"})["result"] == "hi"


def test_1_6_an_unknown_tool_of_a_server_is_an_error(flow: Compile, program: str) -> None:
    app = flow(tool_state("ad", f"{{name: e, config: {CONFIG}}}"), ALLOWED)
    with pytest.raises(ToolError, match=r"MCP server 'e' has no tool 'ad'\. Did you mean 'add'"):
        app.invoke({"input": "go"})


def test_1_6_a_tool_state_with_a_disabled_server_fails_at_run_time(flow: Compile) -> None:
    app = flow(tool_state("add", "{name: e, enabled: false}"))
    with pytest.raises(ToolError, match="MCP server 'e' is disabled"):
        app.invoke({"input": "go"})


@pytest.mark.parametrize("single", ["false", "true"])
@pytest.mark.sampled(2)
def test_1_6_a_server_is_started_once_or_for_each_call(
    single: str, flow: Compile, program: str, tmp_path: Path
) -> None:
    file = tmp_path / "count_starts.txt"
    config = f"{{command: {program}, args: [stdio], env: {{STARTS: '{file}'}}, single_usage: {single}}}"
    text = f"""
tools: [{{id: t, tool: process, mcp_server: {{name: e, config: {config}}}}}]
states:
- {{id: s, tool_id: t, next: {{state_id: s2}}}}
- {{id: s2, tool_id: t, next: {{state_id: end}}}}
"""
    app = flow(text, ALLOWED)
    visits = app.invoke({"input": "go"})["visits"]
    first, second = (visit["output"]["result"] for visit in visits)
    if single == "false":
        assert (first, count_starts(file)) == (second, 1)
        assert is_alive(first)
        app.invoke({"input": "again"})
        assert count_starts(file) == 1
    else:
        assert first != second
        assert not is_alive(second)


def test_connections_are_closed_with_the_workflow(flow: Compile, program: str) -> None:
    app = flow(tool_state("process", f"{{name: unshared, config: {CONFIG}}}"), ALLOWED)
    process = app.invoke({"input": "go"})["result"]["result"]
    assert is_alive(process)
    del app
    gc.collect()
    assert eventually(lambda: not is_alive(process))


# -- dynamic values


def test_4_1_8_only_args_can_refer_to_the_context(flow: Compile, program: str) -> None:
    config = f"{{command: {program}, args: [stdio, --port, '{{{{number}}}}']}}"
    server = f"{{name: e, config: {config}, resolve_dynamic_values_in_arguments: true}}"
    app = flow(tool_state("say", server, "{text: hi}"), ALLOWED)
    assert app.invoke({"input": '{"number": "0"}'})["result"] == "hi"
    with pytest.raises(ToolError, match="invalid int value: '0 --port 1'"):
        app.invoke({"input": '{"number": "0 --port 1"}'})
    off = flow(tool_state("say", f"{{name: e, config: {config}}}", "{text: hi}"), ALLOWED)
    with pytest.raises(ToolError, match=r"invalid int value: '\{\{number\}\}'"):
        off.invoke({"input": '{"number": "0"}'})


@pytest.mark.parametrize(
    "config",
    [
        "{command: '{{name}}'}",
        "{url: 'http://{{name}}/mcp'}",
        "{url: 'http://127.0.0.1/mcp', headers: {X: '{{name}}'}}",
        "{url: 'http://127.0.0.1/mcp', auth_token: '{{name}}'}",
        "{command: statewright-test-server, env: {X: '{{name}}'}}",
    ],
)
def test_4_1_8_the_context_cannot_set_commands_urls_headers_or_variables(config: str, flow: Compile) -> None:
    server = f"{{name: e, config: {config}, resolve_dynamic_values_in_arguments: true}}"
    toml = '[tools]\nmcp_commands = ["statewright-test-server"]\nallow_hosts = ["127.0.0.1"]\n'
    app = flow(tool_state("say", server), toml)
    with pytest.raises(
        ToolError, match=r"refers to \{\{name\}\}, which has no value.*only args may refer to values of a run"
    ):
        app.invoke({"input": '{"name": "statewright-test-server"}'})


def test_1_6_values_come_from_an_integration_or_the_environment(
    flow: Compile, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "secret-token")
    toml = f'{ALLOWED}[integrations.service]\ntoken = "env:SERVICE_TOKEN"\nregion = "north"\n'
    env = "{TOKEN: '{{token}}', OWN: 'env:SERVICE_TOKEN', AT: '{{region}}'}"
    config = f"{{command: {program}, args: [stdio], env: {env}}}"
    server = f"{{name: e, config: {config}, integration_alias: service}}"
    values = [
        flow(tool_state("variable", server, f"{{name: {name}}}"), toml).invoke({"input": "x"})["result"]["result"]
        for name in ("TOKEN", "OWN", "AT")
    ]
    assert values == ["***", "***", "north"]
    monkeypatch.delenv("SERVICE_TOKEN")
    with pytest.raises(MissingApiKey, match="SERVICE_TOKEN"):
        flow(tool_state("variable", server, "{name: AT}"), toml).invoke({"input": "x"})


# -- servers over HTTP


def server_config(web: HttpServer, **config: Any) -> str:
    kind = {"sse": "", "streamable-http": ", type: streamable-http"}[web.kind]
    settings = "".join(f", {name}: {value}" for name, value in config.items())
    return f"{{name: web, config: {{url: '{web.url}'{kind}{settings}}}}}"


@pytest.mark.sampled(2)
def test_1_6_a_server_on_an_allowed_host_receives_its_token_and_headers(web: HttpServer, flow: Compile) -> None:
    server = server_config(web, auth_token="plain-token", headers="{X-Own: mine}")
    toml = f'[tools]\nallow_hosts = ["127.0.0.1:{web.port}"]\n'
    for name, value in (("authorization", "Bearer plain-token"), ("x-own", "mine")):
        app = flow(tool_state("header", server, f"{{name: {name}}}"), toml)
        assert app.invoke({"input": "go"})["result"] == {"result": value}


@pytest.mark.parametrize("hosts", ["", 'allow_hosts = ["127.0.0.1"]', 'allow_hosts = ["*:*"]'])
@pytest.mark.sampled(2)
def test_4_1_8_a_host_must_be_allowed_explicitly(hosts: str, web: HttpServer, flow: Compile) -> None:
    app = flow(tool_state("say", server_config(web), "{text: hi}"), f"[tools]\n{hosts}\n")
    with pytest.raises(ToolError, match="allow_hosts") as caught:
        app.invoke({"input": "go"})
    if hosts != 'allow_hosts = ["*:*"]':
        assert f'"127.0.0.1:{web.port}"]' in str(caught.value)


def test_1_6_an_assistant_calls_the_tools_of_a_server_over_http(web: HttpServer, flow: Compile) -> None:
    model = ScriptedModel([tool_calls(("web-add", {"a": 2, "b": 3})), "five"])
    toml = f'[tools]\nallow_hosts = ["127.0.0.1:{web.port}"]\n'
    text = assistant(server_config(web))
    assert flow(text, toml, models=model).invoke({"input": "go"})["result"] == "five"
    assert model.requests[1].messages[-1].text == '{"result": 5}'


# -- servers configured in the project


@pytest.mark.sampled(2)
def test_1_6_a_server_of_the_project_needs_no_other_permission(
    web: HttpServer, flow: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT_TOKEN", "kept-secret")
    toml = f'[mcp.tickets]\nurl = "{web.url}"\ntype = "{web.kind}"\nauth_token = "env:KEPT_TOKEN"\n'
    server = "{name: t, mcp_config_id: tickets, tools: [header]}"
    app = flow(tool_state("header", server, "{name: authorization}"), toml)
    assert app.invoke({"input": "go"})["result"] == {"result": "Bearer ***"}
    app = flow(tool_state("say", server, "{text: hi}"), toml)
    with pytest.raises(ToolError, match="MCP server 't' has no tool 'say'"):
        app.invoke({"input": "go"})


def test_1_6_the_error_for_an_unknown_server_shows_a_configuration(flow: Compile) -> None:
    app = flow(tool_state("say", "{name: t, mcp_config_id: tickts}"), '[mcp.tickets]\ncommand = "npx"\n')
    with pytest.raises(ToolError, match=r"(?s)'tickts', which is not in the project.*'tickets'.*\[mcp\.tickts\]"):
        app.invoke({"input": "go"})
