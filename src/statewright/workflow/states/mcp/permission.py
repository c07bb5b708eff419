"""What a workflow file may start and reach by its MCP servers: what stands in the project file, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from statewright.errors import ToolError
from statewright.workflow.states.tools import Guard, ToolSettings, Url

_LOADING: Final = re.compile(
    r"PATH|PATHEXT|(LD|DYLD)_.*|PYTHON(PATH|HOME|STARTUP)|NODE_(OPTIONS|PATH)|BASH_ENV|ENV|PERL5.*|RUBY(LIB|OPT)|"
    r"JAVA_TOOL_OPTIONS|GIT_.*",
    re.I,
)
"""Variables by which a program that is allowed can be made to run another one."""


def check_command(command: str, settings: ToolSettings) -> None:
    """Raise ToolError for a program that a workflow file may not start."""
    if command in settings.mcp_commands and not is_path(command):
        return
    if is_path(command):
        raise ToolError(
            f"The program {command[:200]!r} is a path, and a workflow file starts programs by name only. Give its "
            f"name, or keep the server in statewright.toml and name it by mcp_config_id:\n"
            f"{server_stanza('my_server', command)}"
        )
    raise ToolError(
        f"The program {command[:200]!r} is not allowed. To allow it, write in statewright.toml:\n"
        f"{command_stanza(command, settings)}"
    )


def check_variables(names: Iterable[str]) -> None:
    """Raise ToolError for a variable of the environment by which a program would run something else."""
    for name in names:
        if _LOADING.fullmatch(name):
            raise ToolError(
                f"The variable {name!r} says what a program loads, and a workflow file may not set it. Keep the server "
                f"in statewright.toml, and name it by mcp_config_id."
            )


def check_url(url: Url, settings: ToolSettings, *, kept: Url | None, holds_secrets: bool) -> None:
    """Raise ToolError for an address that a workflow file may not reach. It waits for DNS.

    `kept` is the address of the integration, which its project allows by keeping it. What an integration or the
    environment holds goes to hosts that the project spells out, and not to what a wildcard lets through.
    """
    guard = Guard(settings.allow_hosts)
    if kept is not None:
        guard = guard.with_origin(kept)
    if not guard.allows(url):
        raise ToolError(
            f"The host {url.host!r} (port {url.port}) is not allowed. To allow it, write in statewright.toml:\n"
            f"{host_stanza(url, settings)}"
        )
    if holds_secrets and not guard.spells_out(url):
        raise ToolError(
            f"Values of integrations and of the environment are sent to hosts that are spelled out in allow_hosts, and "
            f"{url.host!r} is allowed by a wildcard. Write in statewright.toml:\n{host_stanza(url, settings)}"
        )
    guard.addresses(url)


def is_path(command: str) -> bool:
    """Whether a command is more than the name of a program."""
    return not command or "/" in command or "\\" in command or command in (".", "..")


def command_stanza(command: str, settings: ToolSettings) -> str:
    """What to write into statewright.toml for a program; what is allowed already stays."""
    allowed = [one for one in settings.mcp_commands if one != command]
    return f"[tools]\nmcp_commands = {json.dumps([*allowed, command], ensure_ascii=False)}"


def host_stanza(url: Url, settings: ToolSettings) -> str:
    """What to write into statewright.toml for a host."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    written = host if url.port in (80, 443) else f"{host}:{url.port}"
    return f"[tools]\nallow_hosts = {json.dumps([*settings.allow_hosts, written], ensure_ascii=False)}"


def server_stanza(name: str, command: str = "npx") -> str:
    """What to write into statewright.toml for a server that it keeps."""
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    return f'[mcp.{key}]\ncommand = {json.dumps(command, ensure_ascii=False)}\nargs = ["..."]'
