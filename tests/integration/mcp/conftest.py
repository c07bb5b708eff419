"""Servers that listen, with both HTTP transports of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mcp_servers import Listening, everything

from statewright.agents.mcp import McpTools

KINDS = ["streamable-http", "sse"]


@pytest.fixture(params=KINDS, scope="module")
def listening(request: pytest.FixtureRequest) -> Iterator[Listening]:
    """Yield a server for all tests of a module."""
    server = Listening(request.param)
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def mortal(request: pytest.FixtureRequest) -> Iterator[Listening]:
    """Yield a server that a test may stop and restart."""
    server = Listening(request.param)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lasting() -> Iterator[McpTools]:
    """Yield the tools of a program that is started once for all tests of a module."""
    with McpTools([everything()]) as tools:
        yield tools
