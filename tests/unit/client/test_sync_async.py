"""Both clients share one implementation."""

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
from statewright.client.sync_async import IteratingMethod, Method
from statewright.errors import InvalidRequest
from statewright.testing import FakeClock

PAGE = {"success": True, "data": [], "meta": {"page": 1, "pageSize": 20, "total": 0, "totalPages": 0}}


class CountingTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport that records requests, and answers all after a number of connection errors."""

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


def test_both_clients_send_the_same_request() -> None:
    sync, asynchronous = CountingTransport(), CountingTransport()
    with Client("http://h:1/", "key", transport=sync) as client:
        page = client.runs.list(status=["failed"], metadata={"a": "b"})

    async def list_runs() -> Any:
        async with AsyncClient("http://h:1/", "key", transport=asynchronous) as async_client:
            return await async_client.runs.list(status=["failed"], metadata={"a": "b"})

    assert asyncio.run(list_runs()) == page
    assert str(sync.requests[0].url) == str(asynchronous.requests[0].url)
    assert (sync.requests[0].url.host, sync.requests[0].url.path) == ("h", "/api/v1/workflow-runs")
    assert sync.requests[0].url.params["metadata[a]"] == "b"
    assert sync.requests[0].headers["x-api-key"] == asynchronous.requests[0].headers["x-api-key"] == "key"


def test_both_clients_retry_after_a_pause() -> None:
    sync, asynchronous = CountingTransport(errors=2), CountingTransport(errors=2)
    with Client(transport=sync, clock=FakeClock(jumps=True)) as client:
        assert client.runs.list().total == 0

    async def list_runs() -> Any:
        async with AsyncClient(transport=asynchronous, clock=FakeClock(jumps=True)) as async_client:
            return await async_client.runs.list()

    assert asyncio.run(list_runs()).total == 0
    assert len(sync.requests) == len(asynchronous.requests) == 3


def test_a_wait_extends_the_timeout() -> None:
    transport = CountingTransport()
    with Client(transport=transport, timeout=5) as client:
        with pytest.raises(Exception, match="cannot be parsed"):  # the transport answers with a list
            client.runs.start("g", wait=100)
        client.runs.list()
    assert [request.extensions["timeout"]["read"] for request in transport.requests] == [105, 5]


def test_a_start_has_a_random_idempotency_key_by_default() -> None:
    transport = CountingTransport()
    with Client(transport=transport) as client:
        for _ in range(2):
            with pytest.raises(Exception, match="cannot be parsed"):
                client.runs.start("g", {"a_b": 1}, recursion_limit=3)
    bodies = [json.loads(request.content) for request in transport.requests]
    keys = [body.pop("idempotencyKey") for body in bodies]
    assert keys[0] != keys[1]
    assert bodies[0] == {"graph": "g", "input": {"a_b": 1}, "settings": {"recursionLimit": 3}}


@pytest.mark.parametrize("wait", [-1, 301])
def test_an_invalid_wait_is_refused_by_the_client(wait: float) -> None:
    with Client(transport=CountingTransport()) as client, pytest.raises(InvalidRequest, match="start_and_wait"):
        client.runs.start("g", wait=wait)


def test_the_admin_token_is_only_sent_where_it_is_needed() -> None:
    transport = CountingTransport()
    with Client(transport=transport, api_key="key", admin_token="token") as client:
        client.workspaces.list()
        client.runs.list()
    credentials = [
        (request.headers.get("x-admin-token"), request.headers.get("x-api-key")) for request in transport.requests
    ]
    assert credentials == [("token", None), (None, "key")]


def test_methods_have_docstrings_and_signatures() -> None:
    methods = [member for member in vars(Runs).values() if isinstance(member, Method | IteratingMethod)]
    assert len(methods) > 20
    assert all(method.__doc__ for method in methods)
    client = Client(transport=CountingTransport())
    assert "reason" in inspect.signature(client.runs.cancel).parameters
    assert isinstance(Runs.get, Method)


def test_httpx_is_imported_with_the_first_client() -> None:
    code = "import sys, statewright.client; assert 'httpx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_missing_library_is_reported() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from statewright.client import Client\n"
        "try: Client()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600)
    assert "MissingLibrary" in run.stdout
    assert "pip install 'statewright[client]'" in run.stdout
