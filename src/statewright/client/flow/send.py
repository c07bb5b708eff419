"""Sending one request, with retries and exponential backoff."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from statewright.client.call import Call, Reply
from statewright.client.errors import error_of, retry_after, unreachable
from statewright.client.flow.effects import ConnectionLost, Flow, Send, Sleep
from statewright.client.settings import ClientSettings
from statewright.errors import ServiceError

T = TypeVar("T")
RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""Statuses of temporary failures, which are retried."""


def send(call: Call[T], settings: ClientSettings) -> Flow[T]:
    """Send a request, with retries, and return its parsed answer. Raises ServiceError if it was refused."""
    failures = 0
    while True:
        try:
            reply: Reply = yield Send(call)
        except ConnectionLost as lost:
            failures += 1
            if not call.repeatable or failures > settings.retries:
                raise unreachable(call, settings.base_url, lost) from lost.__cause__
            yield Sleep(settings.pause(failures))
            continue
        if reply.status < 400 or reply.status in call.accepted:
            return _parse(call, reply)
        failures += 1
        pause = pause_after(reply, settings, failures)
        if not call.repeatable or failures > settings.retries or pause is None:
            raise error_of(reply, call)
        yield Sleep(pause)


def pause_after(reply: Reply, settings: ClientSettings, failures: int) -> float | None:
    """Return the seconds before a refused request is retried; None if it must not be."""
    if reply.status not in RETRYABLE:
        return None
    requested = retry_after(reply) or 0.0
    return None if requested > settings.longest_pause else max(requested, settings.pause(failures))


def _parse(call: Call[T], reply: Reply) -> T:
    try:
        answer: Any = reply.content.decode() if call.is_text else json.loads(reply.content) if reply.content else None
        return call.read(answer)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServiceError(
            f"The answer to {call.method} {call.path} cannot be parsed: {error!r}. It begins {reply.content[:80]!r}. "
            f"Check that base_url belongs to a Statewright service whose version is not older than that of this client."
        ) from error
