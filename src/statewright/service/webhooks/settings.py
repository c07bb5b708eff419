"""Settings of webhooks: delivery, and allowed addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from statewright.errors import InvalidConfig

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses that a name has, as text. Raises OSError if there are none."""


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of a host from the system's resolver, without duplicates, in order of preference."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of all webhooks of a service."""

    allow_hosts: Sequence[str] = ()
    """Hosts that may be called whatever their addresses are, over plain HTTP too: `localhost`, `hooks.intranet:8080`.
    Without a port all ports are meant."""
    allow_private: bool = False
    """Whether hosts in private networks are allowed. Loopback and link-local addresses never are."""
    allow_http: bool = False
    """Whether plain HTTP is allowed for all hosts. Messages can then be read in transit."""
    timeout: float = 10.0
    """Seconds for one try, from the look-up of the name to the status of the answer."""
    retry_after: Sequence[float] = (60, 300, 1800, 7200, 21600)
    """Seconds after each try that failed until the next; after the last of them a message has failed for good."""
    longest_pause: float = 86400
    """Seconds for which a receiver is left alone at most that asks for more time, by Retry-After."""
    disable_after: int = 10
    """Messages that fail for good in a row before a webhook is disabled."""
    at_once: int = 32
    """Limit of concurrent requests."""
    at_once_per_webhook: int = 8
    max_per_workspace: int = 100
    """Limit of webhooks per workspace."""
    rotation: float = 86400
    """Seconds for which messages are signed with the former secret too, after a new one was drawn."""
    ssl_context: ssl.SSLContext | None = None
    """By which certificates are checked; the usual authorities if there is none."""
    resolve: Resolve = resolve_by_system

    def __post_init__(self) -> None:
        for name in ("timeout", "disable_after", "at_once", "at_once_per_webhook", "max_per_workspace"):
            if not getattr(self, name) > 0:
                raise InvalidConfig(f"WebhookSettings({name}={getattr(self, name)!r}): give a number above 0.")
        if isinstance(self.allow_hosts, str):
            raise InvalidConfig(f"WebhookSettings(allow_hosts={self.allow_hosts!r}): give a list of hosts.")


DEFAULT_SETTINGS: Final = WebhookSettings()
