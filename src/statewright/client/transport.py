"""Conversion between requests of the client and those of httpx, for both drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statewright.client.call import Call, Reply
from statewright.client.settings import ClientSettings
from statewright.extras import optional

if TYPE_CHECKING:
    import httpx

HEARTBEATS: Final = 60.0
"""Seconds of silence after which a stream counts as broken; the service sends a heartbeat every 15 seconds."""


def library() -> Any:
    """Import the library that speaks HTTP. Raises MissingLibrary."""
    with optional("The client needs", extra="client"):
        import httpx
    return httpx


def build(http: Any, settings: ClientSettings, call: Call[Any], extra: dict[str, str] | None = None) -> Any:
    """Build a request of the library, with either kind of its clients."""
    return http.build_request(
        call.method,
        settings.base_url.rstrip("/") + call.path,
        params=list(call.params),
        content=call.body,
        headers={**headers(settings, call), **(extra or {})},
        timeout=settings.timeout + call.patience,
    )


def build_stream(http: Any, settings: ClientSettings, call: Call[Any], last_event_id: str | None) -> Any:
    """Build a request for a stream, with a longer read timeout."""
    extra = {"accept": "text/event-stream", "cache-control": "no-store"}
    if last_event_id is not None:
        extra["last-event-id"] = last_event_id
    request = build(http, settings, call, extra)
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": HEARTBEATS}
    return request


def headers(settings: ClientSettings, call: Call[Any]) -> dict[str, str]:
    """Return the headers of a request: credentials and content types."""
    result = {"accept": "application/json"}
    if call.body is not None:
        result["content-type"] = "application/json"
    if call.as_operator and settings.admin_token is not None:
        result["x-admin-token"] = settings.admin_token
    elif settings.api_key is not None:
        result["x-api-key"] = settings.api_key
    return result


def reply(response: httpx.Response, content: bytes = b"") -> Reply:
    """Return a response of the library as a `Reply`."""
    return Reply(status=response.status_code, headers=dict(response.headers), content=content)


def reason(error: Exception) -> str:
    """Return a description of a connection error; some errors of the library have no message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
