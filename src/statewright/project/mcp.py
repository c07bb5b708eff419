"""`[mcp.NAME]`: MCP servers that the project keeps. What stands here is trusted: any program, and any host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from statewright.agents.mcp import read_server
from statewright.errors import InvalidConfig
from statewright.project.form import BOOLEAN, DURATION, TABLE, TEXT, TEXTS
from statewright.project.integrations import check_secret
from statewright.project.lines import Keys
from statewright.project.reader import Reader

_SERVER: Final = {
    "command": TEXT,
    "args": TEXTS,
    "env": TABLE,
    "cwd": TEXT,
    "url": TEXT,
    "headers": TABLE,
    "type": TEXT,
    "auth_token": TEXT,
    "integration_alias": TEXT,
    "single_usage": BOOLEAN,
    "timeout": DURATION,
    "connect_timeout": DURATION,
}
_NOT_OF_SERVERS: Final = ("integration_alias", "single_usage")


def read_mcp_server(name: str, given: Any, keys: Keys, reader: Reader) -> dict[str, Any]:
    """A server as it is written; values of the environment are looked up when it is connected."""
    values = reader.table(given, keys, _SERVER)
    for where, key, text in _texts(values):
        check_secret(key, text, (*keys, *where, key), reader)
    try:
        read_server({key: one for key, one in values.items() if key not in _NOT_OF_SERVERS}, name=name or "server")
    except InvalidConfig as error:
        if "{{" not in str(values.get("url", "")):  # an integration fills it in
            reader.problem(keys, str(error))
    if "cwd" in values:
        values["cwd"] = str(reader.folder / values["cwd"])
    return values


def _texts(values: dict[str, Any]) -> Iterator[tuple[Keys, str, str]]:
    """The texts that may be secret, with where they stand."""
    if "auth_token" in values:
        yield (), "auth_token", values["auth_token"]
    for table in ("env", "headers"):
        for key, value in values.get(table, {}).items():
            if isinstance(value, str) and "{{" not in value:
                yield (table,), key, value
