"""MCP servers over both HTTP transports, and one over stdio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mcp_servers import HttpServer, everything

from statewright.agents.mcp import McpTools

KINDS = ["streamable-http", "sse"]


@pytest.fixture(params=KINDS, scope="module")
def http_server(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    """Yield a server for all tests of a module."""
    server = HttpServer(request.param)
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def restartable_server(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    """Yield a server that a test may stop and restart."""
    server = HttpServer(request.param)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared_tools() -> Iterator[McpTools]:
    """Yield the tools of a program that is started once for all tests of a module."""
    with McpTools([everything()]) as tools:
        yield tools
