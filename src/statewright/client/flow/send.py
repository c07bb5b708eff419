"""One request, sent until it is answered: what may be sent again is, after pauses that grow."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from statewright.client.call import Call, Reply
from statewright.client.errors import error_of, retry_after, unreachable
from statewright.client.flow.effects import Flow, Lost, Send, Sleep
from statewright.client.settings import ClientSettings
from statewright.errors import ServiceError

T = TypeVar("T")
PASSING: Final = frozenset({429, 502, 503, 504})
"""Statuses of what may go better a little later."""


def ask(call: Call[T], settings: ClientSettings) -> Flow[T]:
    """What the answer to a request means. Raises the ServiceError that it was refused with."""
    failures = 0
    while True:
        try:
            reply: Reply = yield Send(call)
        except Lost as lost:
            failures += 1
            if not call.repeatable or failures > settings.retries:
                raise unreachable(call, settings.base_url, lost) from lost.__cause__
            yield Sleep(settings.pause(failures))
            continue
        if reply.status < 400 or reply.status in call.accepted:
            return _meaning(call, reply)
        failures += 1
        pause = pause_after(reply, settings, failures)
        if not call.repeatable or failures > settings.retries or pause is None:
            raise error_of(reply, call)
        yield Sleep(pause)


def pause_after(reply: Reply, settings: ClientSettings, failures: int) -> float | None:
    """Seconds after which a refused request is worth another try; None if it is not."""
    if reply.status not in PASSING:
        return None
    wanted = retry_after(reply) or 0.0
    return None if wanted > settings.longest_pause else max(wanted, settings.pause(failures))


def _meaning(call: Call[T], reply: Reply) -> T:
    try:
        answer: Any = reply.content.decode() if call.is_text else json.loads(reply.content) if reply.content else None
        return call.read(answer)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServiceError(
            f"The answer to {call.method} {call.path} cannot be read: {error!r}. It begins {reply.content[:80]!r}. "
            f"Check that base_url is that of a Statewright service, and that its version is not older than this one."
        ) from error
