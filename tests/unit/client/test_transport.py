"""What is sent for a request, and what is kept of an answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from statewright.client.call import Call, get, post, read_data
from statewright.client.settings import ClientSettings
from statewright.client.transport import (
    HEARTBEATS,
    build_request,
    build_stream,
    describe_failure,
    import_httpx,
    request_headers,
    to_reply,
)

LOOK = get("/api/v1/x", read_data, {"status": ["a", "b c"], "n": 1})


def made(call: Call[Any], **settings: Any) -> httpx.Request:
    with httpx.Client() as http:
        return build_request(http, ClientSettings(**settings), call)


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1/behind/a/proxy/"])
def test_a_path_follows_the_address(base: str) -> None:
    request = made(LOOK, base_url=base)
    assert (request.method, str(request.url)) == ("GET", f"{base.rstrip('/')}/api/v1/x?status=a&status=b+c&n=1")


def test_an_id_that_is_quoted_stays_so() -> None:
    assert made(get("/api/v1/x/a%2Fb", read_data)).url.raw_path == b"/api/v1/x/a%2Fb"


def test_a_body_goes_out_as_it_is() -> None:
    request = made(post("/x", read_data, {"a": "ü"}))
    assert (request.content, request.headers["content-type"]) == ('{"a": "ü"}'.encode(), "application/json")
    assert "content-type" not in made(LOOK).headers


@pytest.mark.parametrize(
    ("as_operator", "given", "sent"),
    [
        (False, {}, {}),
        (False, {"api_key": "k", "admin_token": "t"}, {"x-api-key": "k"}),
        (False, {"admin_token": "t"}, {}),
        (True, {"api_key": "k", "admin_token": "t"}, {"x-admin-token": "t"}),
        (True, {"api_key": "k"}, {"x-api-key": "k"}),
    ],
)
def test_who_asks_is_told_as_the_request_needs_it(
    as_operator: bool, given: dict[str, str], sent: dict[str, str]
) -> None:
    call = Call(method="GET", path="/x", read=read_data, as_operator=as_operator)
    assert request_headers(ClientSettings(**given), call) == {"accept": "application/json", **sent}  # pyright: ignore


def test_the_time_that_the_service_may_wait_comes_on_top() -> None:
    timeouts = [
        made(Call(method="GET", path="/x", read=read_data, patience=patience), timeout=5).extensions["timeout"]
        for patience in (0, 60)
    ]
    assert [one["read"] for one in timeouts] == [5, 65]


@pytest.mark.parametrize(("last", "sent"), [(None, None), ("7", "7")])
def test_a_stream_may_be_silent_and_goes_on_after_what_came(last: str | None, sent: str | None) -> None:
    with httpx.Client() as http:
        request = build_stream(http, ClientSettings(timeout=5, api_key="k"), LOOK, last)
    assert (request.headers["accept"], request.headers["cache-control"]) == (
        "text/event-stream",
        "no-store",
    )
    assert (request.headers.get("last-event-id"), request.headers["x-api-key"]) == (sent, "k")
    timeout = request.extensions["timeout"]
    assert (timeout["connect"], timeout["read"]) == (5, HEARTBEATS)


def test_an_answer_is_kept_with_names_in_lower_case() -> None:
    found = to_reply(httpx.Response(429, headers={"Retry-After": "3"}), b"no")
    assert (found.status, found.headers["retry-after"], found.content) == (429, "3", b"no")


def test_every_broken_connection_has_words() -> None:
    assert describe_failure(httpx.ConnectError("refused")) == "ConnectError: refused"
    assert describe_failure(httpx.ReadTimeout("")) == "ReadTimeout"


def test_the_library_is_there() -> None:
    assert import_httpx() is httpx
