"""The tool `http_request`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from statewright.agents import HttpError, ToolContext, call_tool
from statewright.errors import ToolError
from statewright.http import HttpRequest
from statewright.workflow.states.tools import Integrations, ToolRegistry, ToolSettings
from statewright.workflow.states.tools.guard import read_url
from statewright.workflow.states.tools.http_request import follow_redirect

SECRET = "s3cret-value"


def fetch(*hosts: str, integration: dict[str, Any] | None = None, seconds: float = 60, **arguments: Any) -> Any:
    tool = ToolRegistry(settings=ToolSettings(allow_hosts=hosts or ("none.example",), http_seconds=seconds))
    credentials = Integrations({"it": integration} if integration else {}).credentials(
        "it" if integration else None, {"KEY": SECRET}
    )
    return asyncio.run(call_tool(tool.get("http_request"), arguments, context=ToolContext(credentials)))


def test_the_text_of_the_response_is_returned(service: Any) -> None:
    service.answers["/data?n=1"] = (200, {"content-type": "application/json"}, b'{"users": []}')
    assert fetch(service.host, url=f"{service.url}/data?n=1") == '{"users": []}'
    assert service.requests[0]["method"] == "GET"


def test_json_and_text_are_sent(service: Any) -> None:
    fetch(service.host, url=service.url, method="post", json={"a": "é"}, headers={"X-Own": "1"})
    fetch(service.host, url=service.url, method="PUT", text="é", headers={"Content-Type": "text/markdown"})
    first, second = service.requests
    assert (first["method"], first["body"]) == ("POST", '{"a": "é"}'.encode())
    assert (first["headers"]["content-type"], first["headers"]["x-own"]) == ("application/json", "1")
    assert (second["method"], second["body"]) == ("PUT", "é".encode())
    assert second["headers"]["content-type"] == "text/markdown"
    with pytest.raises(ToolError, match="both json and text"):
        fetch(service.host, url=service.url, json=1, text="a")


def test_4_1_8_hosts_that_are_not_allowed_receive_no_request(service: Any) -> None:
    for hosts in ((), ("127.0.0.1",), ("*",), ("*:*",)):
        with pytest.raises(ToolError, match=r"is not allowed|not a public address"):
            fetch(*hosts, url=service.url)
    assert service.requests == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding"])
def test_connection_headers_cannot_be_set(service: Any, name: str) -> None:
    with pytest.raises(ToolError, match="cannot be set by tools"):
        fetch(service.host, url=service.url, headers={name: "x"})


@pytest.mark.parametrize("name", ["a b", "a:b", "a\r\nb", "", "é"])
def test_4_1_8_invalid_header_names_are_rejected(service: Any, name: str) -> None:
    with pytest.raises(ToolError, match="not a header name"):
        fetch(service.host, url=service.url, headers={name: "x"})


def test_unknown_methods_are_rejected(service: Any) -> None:
    with pytest.raises(ToolError, match="'TRACE' is not an HTTP method"):
        fetch(service.host, url=service.url, method="TRACE")


def test_redirects_are_followed(service: Any) -> None:
    service.answers["/old"] = (302, {"location": "/new"}, b"")
    assert fetch(service.host, url=f"{service.url}/old") == "hello"
    assert [request["path"] for request in service.requests] == ["/old", "/new"]


def test_4_1_8_every_redirect_is_checked(service: Any, other: Any) -> None:
    for target in (other.url, "http://169.254.169.254/latest", "http://[::1]/", "file:///etc/passwd"):
        service.answers["/away"] = (302, {"location": target}, b"")
        with pytest.raises(ToolError):
            fetch(service.host, "*", url=f"{service.url}/away")
    assert other.requests == []


def test_4_1_8_another_origin_receives_no_credentials_after_a_redirect(service: Any, other: Any) -> None:
    service.answers["/away"] = (307, {"location": f"{other.url}/there"}, b"")
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "c", "Accept": "text/plain"}
    fetch(service.host, other.host, url=f"{service.url}/away", method="POST", text="body", headers=headers)
    received = other.requests[0]
    assert (received["method"], received["body"], received["headers"]["accept"]) == ("POST", b"body", "text/plain")
    assert not {"authorization", "cookie", "x-api-key"} & set(received["headers"])


def test_the_number_of_redirects_is_limited(service: Any) -> None:
    service.answers["/round"] = (302, {"location": "/round"}, b"")
    with pytest.raises(ToolError, match="redirected the request more than 5 times"):
        fetch(service.host, url=f"{service.url}/round")


@pytest.mark.parametrize(
    ("method", "status", "new_method"),
    [
        ("POST", 303, "GET"), ("POST", 302, "GET"), ("POST", 307, "POST"), ("PUT", 301, "PUT"), ("HEAD", 303, "HEAD"),
        ("DELETE", 308, "DELETE"),
    ],
)  # fmt: skip
def test_redirects_change_the_method_as_in_browsers(method: str, status: int, new_method: str) -> None:
    request = HttpRequest(method, read_url("http://a.example/x"), {"content-type": "text/plain"}, b"body")
    redirected = follow_redirect(request, status, "y")
    assert (redirected.method, str(redirected.url)) == (new_method, "http://a.example/y")
    assert (redirected.body is None) == (new_method != method or status == 303)


def test_invalid_characters_in_a_redirect_are_quoted() -> None:
    request = HttpRequest("GET", read_url("http://a.example/x"), {})
    location = "/caf\u00e9 1?a=%20&b".encode().decode("latin-1")  # as the standard library decodes headers
    assert str(follow_redirect(request, 302, location).url) == "http://a.example/caf%C3%A9%201?a=%20&b"
    for broken in ("http://[", "http://a:x/", "javascript:alert(1)"):
        with pytest.raises(ToolError):
            follow_redirect(request, 302, broken)


def test_a_redirect_from_https_to_http_is_rejected() -> None:
    with pytest.raises(ToolError, match="from https to http"):
        follow_redirect(HttpRequest("GET", read_url("https://a.example/"), {}), 302, "http://a.example/")


def test_2_11_an_http_error_has_the_status_and_the_message_of_the_service(service: Any) -> None:
    service.answers["/gone"] = (404, {}, b"no such user")
    with pytest.raises(HttpError, match=r"GET to '127.0.0.1' failed with 404 Not Found: no such user") as caught:
        fetch(service.host, url=f"{service.url}/gone")
    assert (caught.value.status, caught.value.retry_after) == (404, None)


def test_2_11_retry_after_is_read(service: Any) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for value, minimum, maximum in (("7", 7, 7), (soon, 3000, 3600), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0)):
        service.answers["/busy"] = (429, {"retry-after": value}, b"")
        with pytest.raises(HttpError) as caught:
            fetch(service.host, url=f"{service.url}/busy")
        assert minimum <= caught.value.retry_after <= maximum
    service.answers["/busy"] = (503, {"retry-after": "later"}, b"")
    with pytest.raises(HttpError, match="503 Service Unavailable") as caught:
        fetch(service.host, url=f"{service.url}/busy")
    assert caught.value.retry_after is None


def test_time_is_limited(service: Any) -> None:
    with pytest.raises(TimeoutError, match=r"'127.0.0.1' did not respond within"):
        fetch(service.host, url=f"{service.url}/slow", seconds=0.3)


def test_responses_other_than_text_are_rejected(service: Any) -> None:
    service.answers["/image"] = (200, {"content-type": "image/png"}, b"\x89PNG\xff")
    service.answers["/packed"] = (200, {"content-encoding": "gzip"}, b"\x1f\x8b")
    with pytest.raises(ToolError, match="responded with image/png, which is not text"):
        fetch(service.host, url=f"{service.url}/image")
    with pytest.raises(ToolError, match="compressed"):
        fetch(service.host, url=f"{service.url}/packed")


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
        ("text/plain; charset=utf-16", "é".encode("utf-16"), "é"),
        ("text/plain; charset=punycode", "é".encode(), "é"),
        ("text/plain; charset=no-such", "é".encode(), "é"),
    ],
)
def test_encodings_are_decoded(service: Any, kind: str, body: bytes, text: str) -> None:
    service.answers["/text"] = (200, {"content-type": kind}, body)
    assert fetch(service.host, url=f"{service.url}/text") == text


def test_an_integration_provides_the_address_and_the_token(service: Any) -> None:
    integration = {"base_url": f"{service.url}/api", "token": "env:KEY"}
    assert fetch(integration=integration, url="/users?q=1") == "hello"
    fetch(integration=integration, url="users?next=https://other.example")
    assert [request["path"] for request in service.requests] == [
        "/api/users?q=1",
        "/api/users?next=https://other.example",
    ]
    assert service.requests[0]["headers"]["authorization"] == f"Bearer {SECRET}"


def test_an_integration_provides_a_password_or_headers(service: Any) -> None:
    fetch(integration={"url": service.url, "username": "me", "password": "env:KEY"}, url="/")
    fetch(integration={"url": service.url, "headers": {"X-Api-Key": "env:KEY"}}, url="/", headers={"x-api-key": "mine"})
    assert service.requests[0]["headers"]["authorization"].startswith("Basic ")
    assert service.requests[1]["headers"]["x-api-key"] == SECRET


def test_4_1_8_credentials_are_sent_only_to_their_own_service(service: Any, other: Any) -> None:
    integration = {"base_url": service.url, "token": "env:KEY"}
    with pytest.raises(ToolError, match="Use it only for its own host"):
        fetch(other.host, integration=integration, url=f"{other.url}/steal")
    service.answers["/away"] = (302, {"location": f"{other.url}/steal"}, b"")
    fetch(other.host, integration=integration, url="/away")
    assert len(other.requests) == 1
    assert "authorization" not in other.requests[0]["headers"]


def test_an_integration_without_an_address_is_rejected() -> None:
    with pytest.raises(ToolError, match="has no base_url"):
        fetch("*", integration={"token": "env:KEY"}, url="https://example.com/")


def test_4_1_11_an_echoed_token_is_masked(service: Any) -> None:
    service.answers["/echo"] = (200, {}, f"you sent {SECRET}".encode())
    service.answers["/refuse"] = (403, {}, f"bad token {SECRET}".encode())
    integration = {"base_url": service.url, "token": "env:KEY"}
    assert fetch(integration=integration, url="/echo") == "you sent ***"
    with pytest.raises(HttpError, match=r"403 Forbidden: bad token \*\*\*") as caught:
        fetch(integration=integration, url="/refuse")
    assert caught.value.status == 403


def test_4_1_11_a_token_at_the_end_of_a_quotation_is_masked_completely(service: Any) -> None:
    service.answers["/refuse"] = (400, {}, b"x" * 292 + SECRET.encode() + b"y" * 100)
    with pytest.raises(HttpError) as caught:
        fetch(integration={"base_url": service.url, "token": "env:KEY"}, url="/refuse")
    assert "s3c" not in str(caught.value)


def test_4_1_11_an_echoed_password_is_masked(service: Any) -> None:
    import base64

    basic = base64.b64encode(f"me:{SECRET}".encode())
    service.answers["/echo"] = (200, {}, basic)
    integration = {"base_url": service.url, "username": "me", "password": "env:KEY"}
    assert fetch(integration=integration, url="/echo") == "***"
