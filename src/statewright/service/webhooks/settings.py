"""The settings of webhooks: delivery and allowed addresses."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from statewright.errors import InvalidConfig
from statewright.http import aresolve_host

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host and port to IP addresses. Raises OSError if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of all webhooks of a service."""

    allow_hosts: Sequence[str] = ()
    """Hosts that may be called at any address, even over plain HTTP, such as `localhost` or `hooks.intranet:8080`.
    A host without a port allows all its ports."""
    allow_private: bool = False
    """True to allow hosts in private networks. Loopback and link-local addresses need `allow_hosts`."""
    allow_http: bool = False
    """True to allow plain HTTP for all hosts. Messages can then be read in transit."""
    timeout: float = 10.0
    """Seconds for one attempt, from resolving the host to receiving the status of the response."""
    retry_after: Sequence[float] = (60, 300, 1800, 7200, 21600)
    """Seconds from each failed attempt to the next. A message fails permanently if the attempt after the last delay
    fails."""
    longest_pause: float = 86400
    """Maximum number of seconds by which a receiver can delay the next attempt with Retry-After."""
    disable_after: int = 10
    """A webhook is disabled after this number of consecutive messages have failed permanently."""
    at_once: int = 32
    """Maximum number of concurrent requests."""
    at_once_per_webhook: int = 8
    """Maximum number of concurrent requests to one webhook."""
    max_per_workspace: int = 100
    """Maximum number of webhooks per workspace."""
    rotation: float = 86400
    """Seconds after the rotation of a secret during which messages are also signed with the previous secret."""
    ssl_context: ssl.SSLContext | None = None
    """The context that verifies certificates; None for the default authorities."""
    resolve: Resolve = aresolve_host
    """The function that resolves host names."""

    def __post_init__(self) -> None:
        for name in ("timeout", "disable_after", "at_once", "at_once_per_webhook", "max_per_workspace"):
            if not getattr(self, name) > 0:
                raise InvalidConfig(f"WebhookSettings({name}={getattr(self, name)!r}): give a number above 0.")
        if isinstance(self.allow_hosts, str):
            raise InvalidConfig(f"WebhookSettings(allow_hosts={self.allow_hosts!r}): give a list of hosts.")


DEFAULT_SETTINGS: Final = WebhookSettings()
