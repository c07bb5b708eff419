"""The middleware: ids of requests, limits of bodies, host names, and responses for unexpected errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.unit.server.serving import LEAD, serving

from statewright.server.http.middleware import HostCheck, PathAlias, RequestLifecycle


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the parameters of the call."""
    request = Request(scope, receive)
    values = {"path": scope["path"], "id": scope.get("request_id"), "raw": scope["raw_path"].decode()}
    await JSONResponse({**values, "size": len(await request.body())})(scope, receive, send)


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the password is 1234")


async def cut_off(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("in the middle")


def call(app: ASGIApp, method: str = "GET", path: str = "/x", **options: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


def test_a_valid_request_id_is_kept():
    response = call(RequestLifecycle(echo), headers={"x-request-id": "trace-1.a:b_c"})
    assert response.headers["x-request-id"] == response.json()["id"] == "trace-1.a:b_c"


@pytest.mark.parametrize("request_id", ["", "a b", "é", "x" * 129, "a\tb", "<script>"])
def test_an_invalid_request_id_is_replaced(request_id: str):
    response = call(RequestLifecycle(echo), headers={"x-request-id": request_id.encode("latin-1")})
    assert response.headers["x-request-id"].startswith("req_")


def test_each_request_gets_a_new_id():
    assert call(RequestLifecycle(echo)).headers["x-request-id"] != call(RequestLifecycle(echo)).headers["x-request-id"]


def test_an_unexpected_error_is_a_500_that_reveals_nothing(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR):
        response = call(RequestLifecycle(broken), headers={"x-request-id": "r-1"})
    assert response.status_code == 500
    assert response.json()["error"]["details"] == {"requestId": "r-1"}
    assert "1234" not in response.text
    assert "1234" in caplog.text


def test_an_error_during_the_response_breaks_the_connection():
    with pytest.raises(RuntimeError, match="in the middle"):
        call(RequestLifecycle(cut_off))


def test_responses_are_not_cached():
    headers = call(RequestLifecycle(echo)).headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


class Counted:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        self.seen.append((method, route, status))


def test_requests_are_counted_by_route_not_by_path():
    async def run() -> None:
        counted = Counted()
        async with serving(metrics=counted) as api:
            await api.get("/workflow-runs/run_1", 404)
            await api.get("/workflow-runs/run_2", 404)
            await api.call("GET", "/nowhere/at/all")
        route = "/api/v1/workflow-runs/{id}"
        assert counted.seen == [("GET", route, 404), ("GET", route, 404), ("GET", "unknown", 404)]

    asyncio.run(run())


# -- sizes


@pytest.mark.parametrize("size", [2001, 100_000])
def test_a_body_with_too_large_a_declared_length_is_not_read(size: int):
    async def run() -> None:
        async with serving(max_body=2000) as api:
            error = await api.post("/workflow-runs", status=413, content=b"x" * size)
            assert error["code"] == "PAYLOAD_TOO_LARGE"
            assert error["details"] == {"maxBytes": 2000}

    asyncio.run(run())


def test_a_body_without_a_length_is_counted():
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    async def run() -> None:
        async with serving(max_body=2000) as api:
            headers = {"content-type": "application/json"}
            error = await api.post("/workflow-runs", status=413, content=endless(), headers=headers)
            assert error["code"] == "PAYLOAD_TOO_LARGE"

    asyncio.run(run())


def test_a_body_of_the_largest_size_is_accepted():
    async def run() -> None:
        async with serving(max_body=2000) as api:
            text = b'{"x": 1' + b" " * 1992 + b"}"
            assert len(text) == 2000
            headers = {"content-type": "application/json"}
            assert (await api.post("/workflow-runs", status=400, content=text, headers=headers))["details"]

    asyncio.run(run())


# -- names


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8123", "localhost:1", "[::1]:8123", "dev.local", "DEV.local:9"]
)
def test_a_server_without_keys_accepts_local_host_names(host: str):
    assert call(HostCheck(echo, ["dev.local"], []), headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8123", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1", "10.0.0.1"],
)
def test_a_server_without_keys_refuses_foreign_host_names(host: str):
    response = call(HostCheck(echo, [], []), headers={"host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "FORBIDDEN"


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("POST", "https://evil.example", 403),
        ("DELETE", "https://evil.example", 403),
        ("POST", "null", 403),
        ("POST", "http://127.0.0.1.evil.example", 403),
        ("POST", "https://app.example", 200),
        ("POST", "http://localhost:5173", 200),
        ("POST", "http://127.0.0.1:8123", 200),
        ("GET", "https://evil.example", 200),
    ],
)
def test_foreign_pages_cannot_change_anything(method: str, origin: str, status: int):
    app = HostCheck(echo, [], ["https://app.example"])
    assert call(app, method, headers={"origin": origin}).status_code == status


def test_a_server_with_keys_accepts_any_host_name():
    async def run() -> None:
        async with serving(auth="keys") as api:
            assert (await api.call("GET", "/health", headers={"host": "api.example"})).status_code == 200

    asyncio.run(run())


def test_an_application_without_keys_refuses_foreign_host_names():
    async def run() -> None:
        async with serving() as api:
            response = await api.client.get("/health", headers={"host": "evil.example"})
            assert response.status_code == 403

    asyncio.run(run())


# -- the other prefix, and other origins


def test_the_short_prefix_is_an_alias():
    assert call(PathAlias(echo), path="/v1/a%20b").json() == {
        "path": "/api/v1/a b",
        "raw": "/api/v1/a%20b",
        "id": None,
        "size": 0,
    }
    for path in ("/v1", "/v12/x", "/api/v1/x", "/x/v1/y"):
        assert call(PathAlias(echo), path=path).json()["path"] == path


def test_the_short_prefix_reaches_the_routes():
    async def run() -> None:
        async with serving() as api:
            run = await api.start(LEAD)
            assert (await api.get(f"/v1/workflow-runs/{run['id']}"))["status"] == "completed"

    asyncio.run(run())


def test_only_pages_of_allowed_origins_can_read_responses():
    async def run() -> None:
        async with serving(cors_origins=["https://app.example"]) as api:
            ours = await api.call("GET", "/graphs", headers={"origin": "https://app.example"})
            assert ours.headers["access-control-allow-origin"] == "https://app.example"
            assert "x-request-id" in ours.headers["access-control-expose-headers"]
            theirs = await api.call("GET", "/graphs", headers={"origin": "https://evil.example"})
            assert "access-control-allow-origin" not in theirs.headers
            preflight = {"origin": "https://app.example", "access-control-request-method": "POST"}
            preflight["access-control-request-headers"] = "x-api-key,content-type"
            assert (await api.client.options("/api/v1/workflow-runs", headers=preflight)).status_code == 200

    asyncio.run(run())
