"""The two faces, and how requests go out: from one implementation."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from statewright.client import AsyncClient, Client
from statewright.client.resources.runs import Runs
from statewright.client.sync_async import FlowMethod, IteratingMethod
from statewright.errors import InvalidRequest
from statewright.testing import FakeClock

PAGE = {"success": True, "data": [], "meta": {"page": 1, "pageSize": 20, "total": 0, "totalPages": 0}}


class Answering(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers all requests alike, the first ones with an error of the connection."""

    def __init__(self, errors: int = 0) -> None:
        self.errors = errors
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if len(self.requests) <= self.errors:
            raise httpx.ReadError("cut")
        return httpx.Response(200, json=PAGE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def test_both_send_the_same() -> None:
    one, other = Answering(), Answering()
    with Client("http://h:1/", "key", transport=one) as client:
        blocked = client.runs.list(status=["failed"], metadata={"a": "b"})

    async def use() -> Any:
        async with AsyncClient("http://h:1/", "key", transport=other) as awaited:
            return await awaited.runs.list(status=["failed"], metadata={"a": "b"})

    assert asyncio.run(use()) == blocked
    assert str(one.requests[0].url) == str(other.requests[0].url)
    assert (one.requests[0].url.host, one.requests[0].url.path) == ("h", "/api/v1/workflow-runs")
    assert one.requests[0].url.params["metadata[a]"] == "b"
    assert one.requests[0].headers["x-api-key"] == other.requests[0].headers["x-api-key"] == "key"


def test_both_wait_by_their_clock_before_another_try() -> None:
    one, other = Answering(errors=2), Answering(errors=2)
    with Client(transport=one, clock=FakeClock(jumps=True)) as client:
        assert client.runs.list().total == 0

    async def use() -> Any:
        async with AsyncClient(transport=other, clock=FakeClock(jumps=True)) as awaited:
            return await awaited.runs.list()

    assert asyncio.run(use()).total == 0
    assert len(one.requests) == len(other.requests) == 3


def test_the_service_may_wait_for_longer_than_it_may_be_silent() -> None:
    transport = Answering()
    with Client(transport=transport, timeout=5) as client:
        with pytest.raises(Exception, match="cannot be parsed"):  # it answers with a list
            client.runs.start("g", wait=100)
        client.runs.list()
    assert [one.extensions["timeout"]["read"] for one in transport.requests] == [105, 5]


def test_a_start_has_a_key_of_its_own_if_none_is_given() -> None:
    transport = Answering()
    with Client(transport=transport) as client:
        for _ in range(2):
            with pytest.raises(Exception, match="cannot be parsed"):
                client.runs.start("g", {"a_b": 1}, recursion_limit=3)
    bodies = [json.loads(one.content) for one in transport.requests]
    keys = [body.pop("idempotencyKey") for body in bodies]
    assert keys[0] != keys[1]
    assert bodies[0] == {"graph": "g", "input": {"a_b": 1}, "settings": {"recursionLimit": 3}}


@pytest.mark.parametrize("wait", [-1, 301])
def test_a_wait_that_the_service_would_refuse_is_refused_here(wait: float) -> None:
    with Client(transport=Answering()) as client, pytest.raises(InvalidRequest, match="start_and_wait"):
        client.runs.start("g", wait=wait)


def test_the_token_of_the_operator_goes_only_where_it_is_needed() -> None:
    transport = Answering()
    with Client(transport=transport, api_key="key", admin_token="token") as client:
        client.workspaces.list()
        client.runs.list()
    sent = [(one.headers.get("x-admin-token"), one.headers.get("x-api-key")) for one in transport.requests]
    assert sent == [("token", None), (None, "key")]


def test_methods_are_documented_where_they_are_looked_up() -> None:
    methods = [one for one in vars(Runs).values() if isinstance(one, FlowMethod | IteratingMethod)]
    assert len(methods) > 20
    assert all(one.__doc__ for one in methods)
    client = Client(transport=Answering())
    assert "reason" in inspect.signature(client.runs.cancel).parameters
    assert isinstance(Runs.get, FlowMethod)


def test_nothing_of_http_is_loaded_before_a_client_is_made() -> None:
    code = "import sys, statewright.client; assert 'httpx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_missing_library_is_told() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from statewright.client import Client\n"
        "try: Client()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600)
    assert "MissingLibrary" in run.stdout
    assert "pip install 'statewright[client]'" in run.stdout
