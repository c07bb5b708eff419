"""Permissions of MCP servers: workflow files may use only the programs and hosts that the project file allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from statewright.errors import ToolError
from statewright.http import Url, url_host
from statewright.text import toml_key
from statewright.workflow.states.tools import Guard, ToolSettings

_LOADER_VARIABLES: Final = re.compile(
    r"PATH|PATHEXT|(LD|DYLD)_.*|PYTHON(PATH|HOME|STARTUP)|NODE_(OPTIONS|PATH)|BASH_ENV|ENV|PERL5.*|RUBY(LIB|OPT)|"
    r"JAVA_TOOL_OPTIONS|GIT_.*",
    re.I,
)
"""Environment variables that can make an allowed program run another program."""


def check_command(command: str, settings: ToolSettings) -> None:
    """Raise ToolError for a program that a workflow file may not start."""
    if command in settings.mcp_commands and not is_path(command):
        return
    if is_path(command):
        raise ToolError(
            f"The program {command[:200]!r} is a path, but a workflow file may start programs only by name. Write the "
            f"name, or define the server in statewright.toml and refer to it by mcp_config_id:\n"
            f"{server_snippet('my_server', command)}"
        )
    raise ToolError(
        f"The program {command[:200]!r} is not allowed. To allow it, write in statewright.toml:\n"
        f"{command_snippet(command, settings)}"
    )


def check_variables(names: Iterable[str]) -> None:
    """Raise ToolError for an environment variable that could make a program run another program."""
    for name in names:
        if _LOADER_VARIABLES.fullmatch(name):
            raise ToolError(
                f"The variable {name!r} controls what a program loads, so a workflow file may not set it. Define the "
                f"server in statewright.toml, and refer to it by mcp_config_id."
            )


def check_url(url: Url, settings: ToolSettings, *, integration_url: Url | None, holds_secrets: bool) -> list[str]:
    """Check a URL, and return the addresses of its host. Connect only to these, which are checked too. Blocks for DNS.

    `integration_url` is the URL of the integration, which the project allows by defining it. With `holds_secrets`, a
    host that only a wildcard allows is rejected: values of integrations and of the environment are sent only to hosts
    that the project names explicitly. Raises ToolError for a URL that a workflow file may not reach.
    """
    guard = Guard(settings.allow_hosts)
    if integration_url is not None:
        guard = guard.with_origin(integration_url)
    if not guard.allows(url):
        raise ToolError(
            f"The host {url.host!r} (port {url.port}) is not allowed. To allow it, write in statewright.toml:\n"
            f"{host_snippet(url, settings)}"
        )
    if holds_secrets and not guard.names_exactly(url):
        raise ToolError(
            f"The host {url.host!r} is allowed only by a wildcard, but values of integrations and of the environment "
            f"are sent only to explicit hosts. Write in statewright.toml:\n{host_snippet(url, settings)}"
        )
    return guard.resolve(url)


def is_path(command: str) -> bool:
    """Return whether a command is a path, or empty, instead of the name of a program."""
    return not command or "/" in command or "\\" in command or command in (".", "..")


def command_snippet(command: str, settings: ToolSettings) -> str:
    """Return the lines of statewright.toml that allow a program, in addition to those that are allowed already."""
    allowed = [name for name in settings.mcp_commands if name != command]
    return f"[tools]\nmcp_commands = {json.dumps([*allowed, command], ensure_ascii=False)}"


def host_snippet(url: Url, settings: ToolSettings) -> str:
    """Return the lines of statewright.toml that allow a host, in addition to those that are allowed already."""
    host = url_host(url.host)
    entry = host if url.port in (80, 443) else f"{host}:{url.port}"
    return f"[tools]\nallow_hosts = {json.dumps([*settings.allow_hosts, entry], ensure_ascii=False)}"


def server_snippet(name: str, command: str = "npx") -> str:
    """Return the lines of statewright.toml that define a server."""
    return f'[mcp.{toml_key(name)}]\ncommand = {json.dumps(command, ensure_ascii=False)}\nargs = ["..."]'
