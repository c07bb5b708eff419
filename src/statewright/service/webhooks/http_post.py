"""Sending a message to a webhook: a POST request to an address that was checked, and the status of the response.

Redirects are not followed, because they would bypass the check. The body of the response is discarded, but it is read
up to a limit, so that a typical receiver can finish sending it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from statewright.errors import InvalidRequest
from statewright.http import HttpRequest, HttpResponse, default_certificates, retry_after, send
from statewright.service.webhooks.address import find_addresses, read_url
from statewright.service.webhooks.settings import WebhookSettings

_MAX_READ: Final = 65536
"""Maximum number of bytes to read of the body of a response."""
_READ_SECONDS: Final = 1.0
"""Maximum number of seconds for reading the body of a response."""


class Answer(NamedTuple):
    """The response to one attempt."""

    status: int | None
    """The HTTP status; None if there was no response."""
    error: str | None = None
    """The error; None if the message was delivered."""
    retry_after: float | None = None
    """The Retry-After of the response in seconds, if it has one."""


Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[Answer]]
"""Sends a message, given its URL, body and headers. Never raises an error: errors are part of the answer."""


class HttpPost:
    """Sends messages over HTTP, each on a separate connection."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return self._settings.ssl_context or default_certificates()

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a message, and return the response. Hosts that are not allowed are not contacted."""
        try:
            return await self._send(HttpRequest("POST", read_url(url, self._settings), headers, body))
        except InvalidRequest as error:
            return Answer(None, str(error))

    async def _send(self, request: HttpRequest) -> Answer:
        seconds = self._settings.timeout
        answer: Answer | None = None  # once the answer is known, a failure to read the body does not matter
        try:
            async with asyncio.timeout(seconds) as limit:
                addresses = await find_addresses(request.url, self._settings)
                async with send(request, addresses, certificates=self._certificates, timeout=seconds) as response:
                    answer = _answer(response)
                    limit.reschedule(asyncio.get_running_loop().time() + _READ_SECONDS)
                    await response.read(_MAX_READ)
        except TimeoutError:
            return answer or Answer(None, f"The receiver did not answer within {seconds:g} s.")
        except (ConnectionError, ValueError) as error:
            return answer or Answer(None, f"{request.url.authority} could not be reached: {error}"[:500])
        return answer


def _answer(response: HttpResponse) -> Answer:
    status = response.status
    if 200 <= status < 300:
        return Answer(status)
    if 300 <= status < 400:
        return Answer(status, f"The receiver answered {status}, and redirects are not followed. Change the URL.")
    return Answer(status, f"The receiver answered {status}.", retry_after(response.headers, datetime.now(UTC)))
