"""Servers that listen, in both forms of the protocol over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mcp_servers import Listening, everything

from statewright.agents.mcp import McpTools

KINDS = ["streamable-http", "sse"]


@pytest.fixture(params=KINDS, scope="module")
def listening(request: pytest.FixtureRequest) -> Iterator[Listening]:
    """One for many tests."""
    server = Listening(request.param)
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def mortal(request: pytest.FixtureRequest) -> Iterator[Listening]:
    """One that a test may stop and start again."""
    server = Listening(request.param)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lasting() -> Iterator[McpTools]:
    """A program that is started once for many tests."""
    with McpTools([everything()]) as tools:
        yield tools
