"""4.1.8: the programs that workflow files may start and the hosts that they may reach."""

from __future__ import annotations

import tomllib

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.mcp.permission import (
    check_command,
    check_url,
    check_variables,
    command_snippet,
    host_snippet,
    is_path,
    server_snippet,
)
from statewright.workflow.states.tools import ToolSettings, read_url

SETTINGS = ToolSettings(allow_hosts=("8.8.8.8", "*.example.com", "*"), mcp_commands=("npx", "uvx"))
URL = read_url("http://8.8.8.8:80/mcp")


def test_only_listed_programs_may_be_started() -> None:
    check_command("npx", SETTINGS)
    with pytest.raises(ToolError, match=r'(?s)mcp_commands = \["npx", "uvx", "sh"\]'):
        check_command("sh", SETTINGS)


@pytest.mark.parametrize("command", ["./npx", "/usr/bin/npx", "bin\\npx", "..", ""])
def test_a_path_is_not_a_program_name(command: str) -> None:
    assert is_path(command)
    with pytest.raises(ToolError, match="may start programs only by name"):
        check_command(command, ToolSettings(mcp_commands=(command,)))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "dyld_insert_libraries", "PYTHONPATH", "NODE_OPTIONS"])
def test_variables_that_load_code_are_rejected(name: str) -> None:
    check_variables(["TOKEN", "ALLOWED_PATH", "PYTHONUNBUFFERED"])
    with pytest.raises(ToolError, match=name):
        check_variables(["TOKEN", name])


def test_only_listed_hosts_may_be_reached() -> None:
    check_url(URL, SETTINGS, integration_url=None, holds_secrets=False)
    with pytest.raises(ToolError, match=r'allow_hosts = \["8\.8\.8\.8:8080"\]'):
        check_url(read_url("http://8.8.8.8:8080/"), ToolSettings(), integration_url=None, holds_secrets=False)


def test_a_wildcard_does_not_allow_private_hosts() -> None:
    with pytest.raises(ToolError, match="not a public address"):
        check_url(
            read_url("http://127.0.0.1/"), ToolSettings(allow_hosts=("*",)), integration_url=None, holds_secrets=False
        )


def test_secrets_are_sent_only_to_hosts_listed_without_a_wildcard() -> None:
    check_url(URL, SETTINGS, integration_url=None, holds_secrets=True)
    with pytest.raises(ToolError, match="allowed only by a wildcard"):
        check_url(URL, ToolSettings(allow_hosts=("*",)), integration_url=None, holds_secrets=True)


def test_the_address_of_an_integration_is_allowed() -> None:
    check_url(URL, ToolSettings(), integration_url=read_url("http://8.8.8.8/api"), holds_secrets=True)
    with pytest.raises(ToolError, match="is not allowed"):
        check_url(URL, ToolSettings(), integration_url=read_url("http://8.8.4.4/api"), holds_secrets=True)


def test_snippets_keep_the_values_already_allowed() -> None:
    assert tomllib.loads(command_snippet("sh", SETTINGS)) == {"tools": {"mcp_commands": ["npx", "uvx", "sh"]}}
    url = read_url("http://[2001:db8::1]:81/")
    assert tomllib.loads(host_snippet(url, ToolSettings())) == {"tools": {"allow_hosts": ["[2001:db8::1]:81"]}}
    assert tomllib.loads(server_snippet("a b")) == {"mcp": {"a b": {"command": "npx", "args": ["..."]}}}
