"""Conversion between the calls and replies of the client and the requests and responses of httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statewright.client.call import Call, Reply
from statewright.client.settings import ClientSettings
from statewright.extras import optional

if TYPE_CHECKING:
    import httpx

HEARTBEATS: Final = 60.0
"""Seconds of silence after which a stream counts as broken; the service sends a heartbeat every 15 seconds."""


def import_httpx() -> Any:
    """Import httpx. Raises MissingLibrary without the extra `client`."""
    with optional("The client needs", extra="client"):
        import httpx
    return httpx


def build_request(http: Any, settings: ClientSettings, call: Call[Any], extra: dict[str, str] | None = None) -> Any:
    """Build a request with a synchronous or asynchronous httpx client."""
    return http.build_request(
        call.method,
        settings.base_url.rstrip("/") + call.path,
        params=list(call.params),
        content=call.body,
        headers={**request_headers(settings, call), **(extra or {})},
        timeout=settings.timeout + call.patience,
    )


def build_stream(http: Any, settings: ClientSettings, call: Call[Any], last_event_id: str | None) -> Any:
    """Build a request for a stream, with a longer read timeout."""
    extra = {"accept": "text/event-stream", "cache-control": "no-store"}
    if last_event_id is not None:
        extra["last-event-id"] = last_event_id
    request = build_request(http, settings, call, extra)
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": HEARTBEATS}
    return request


def request_headers(settings: ClientSettings, call: Call[Any]) -> dict[str, str]:
    """Return the headers of a request: credentials and content types."""
    headers = {"accept": "application/json"}
    if call.body is not None:
        headers["content-type"] = "application/json"
    if call.as_operator and settings.admin_token is not None:
        headers["x-admin-token"] = settings.admin_token
    elif settings.api_key is not None:
        headers["x-api-key"] = settings.api_key
    return headers


def to_reply(response: httpx.Response, content: bytes = b"") -> Reply:
    """Return a response of httpx as a `Reply`."""
    return Reply(status=response.status_code, headers=dict(response.headers), content=content)


def describe_failure(error: Exception) -> str:
    """Return the type and the message of a connection error; some errors of httpx have no message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
