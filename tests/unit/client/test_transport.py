"""Conversion of calls to httpx requests, and of httpx responses to replies."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from statewright.client.call import Call, get, post, read_data
from statewright.client.connection import (
    HEARTBEAT_TIMEOUT,
    build_request,
    build_stream_request,
    describe_failure,
    import_httpx,
    request_headers,
    to_reply,
)
from statewright.client.settings import ClientSettings

READ = get("/api/v1/x", read_data, {"status": ["a", "b c"], "n": 1})


def build(call: Call[Any], **settings: Any) -> httpx.Request:
    with httpx.Client() as http:
        return build_request(http, ClientSettings(**settings), call)


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1/behind/a/proxy/"])
def test_a_path_follows_the_address(base: str) -> None:
    request = build(READ, base_url=base)
    assert (request.method, str(request.url)) == ("GET", f"{base.rstrip('/')}/api/v1/x?status=a&status=b+c&n=1")


def test_a_quoted_id_stays_quoted() -> None:
    assert build(get("/api/v1/x/a%2Fb", read_data)).url.raw_path == b"/api/v1/x/a%2Fb"


def test_a_body_is_sent_unchanged() -> None:
    request = build(post("/x", read_data, {"a": "ü"}))
    assert (request.content, request.headers["content-type"]) == ('{"a": "ü"}'.encode(), "application/json")
    assert "content-type" not in build(READ).headers


@pytest.mark.parametrize(
    ("as_operator", "credentials", "headers"),
    [
        (False, {}, {}),
        (False, {"api_key": "k", "admin_token": "t"}, {"x-api-key": "k"}),
        (False, {"admin_token": "t"}, {}),
        (True, {"api_key": "k", "admin_token": "t"}, {"x-admin-token": "t"}),
        (True, {"api_key": "k"}, {"x-api-key": "k"}),
    ],
)
def test_the_credentials_of_a_request(as_operator: bool, credentials: dict[str, str], headers: dict[str, str]) -> None:
    call = Call(method="GET", path="/x", read=read_data, as_operator=as_operator)
    assert request_headers(ClientSettings(**credentials), call) == {"accept": "application/json", **headers}  # pyright: ignore


def test_the_patience_of_a_call_extends_the_timeout() -> None:
    timeouts = [
        build(Call(method="GET", path="/x", read=read_data, max_wait=max_wait), timeout=5).extensions["timeout"]
        for max_wait in (0, 60)
    ]
    assert [timeout["read"] for timeout in timeouts] == [5, 65]


@pytest.mark.parametrize(("last", "sent"), [(None, None), ("7", "7")])
def test_a_stream_has_a_longer_read_timeout_and_a_last_event_id(last: str | None, sent: str | None) -> None:
    with httpx.Client() as http:
        request = build_stream_request(http, ClientSettings(timeout=5, api_key="k"), READ, last)
    assert (request.headers["accept"], request.headers["cache-control"]) == ("text/event-stream", "no-store")
    assert (request.headers.get("last-event-id"), request.headers["x-api-key"]) == (sent, "k")
    timeout = request.extensions["timeout"]
    assert (timeout["connect"], timeout["read"]) == (5, HEARTBEAT_TIMEOUT)


def test_a_reply_has_headers_in_lower_case() -> None:
    reply = to_reply(httpx.Response(429, headers={"Retry-After": "3"}), b"no")
    assert (reply.status, reply.headers["retry-after"], reply.content) == (429, "3", b"no")


def test_every_connection_error_has_a_description() -> None:
    assert describe_failure(httpx.ConnectError("refused")) == "ConnectError: refused"
    assert describe_failure(httpx.ReadTimeout("")) == "ReadTimeout"


def test_httpx_is_imported() -> None:
    assert import_httpx() is httpx
