"""Whether a call of a provider has sent anything when it fails.

The libraries of the vendors trip over odd requests and over odd answers with the same errors. One that came before
anything was sent is about the request: it would come again at every attempt.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast


class Sending:
    """What has become of one call so far."""

    __slots__ = ("is_watched", "was_sent")

    def __init__(self) -> None:
        self.is_watched = False
        """Whether it would be known that the call was sent: not every provider can be watched."""
        self.was_sent = False

    @property
    def was_not_sent(self) -> bool:
        """True if the call has certainly not been sent."""
        return self.is_watched and not self.was_sent


_present: Final[ContextVar[Sending | None]] = ContextVar("statewright_sending", default=None)


@contextmanager
def watched(model: Any) -> Generator[Sending]:
    """Watch whether the call of a model that is made within this block is sent."""
    sending = Sending()
    hooks = _request_hooks(getattr(model, "provider", None))
    if hooks is not None:
        if _mark not in hooks:
            hooks.append(_mark)
        sending.is_watched = True
    token = _present.set(sending)
    try:
        yield sending
    finally:
        _present.reset(token)


async def _mark(request: object) -> None:
    """Called by the HTTP client when a request has been built and is about to be sent."""
    sending = _present.get()
    if sending is not None:
        sending.was_sent = True


def _request_hooks(provider: Any) -> list[Any] | None:
    """The functions that the HTTP client of a provider calls before it sends; None for one without such a client."""
    client = getattr(provider, "_own_http_client", None)
    hooks = getattr(client, "event_hooks", None)
    if not isinstance(hooks, Mapping):
        return None
    return cast("Mapping[str, list[Any]]", hooks).get("request")
