"""Parsed URLs, and the resolution of host names."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from statewright.http.addresses import Address

PORTS: Final = {"http": 80, "https": 443}
"""The default ports, by scheme."""


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed HTTP URL."""

    scheme: str
    host: str
    """The host in lower-case ASCII, without the brackets of an IPv6 address."""
    port: int
    target: str
    """The path and the query."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host and the port, as in the header `host`. The port is left out if it is the default."""
        return url_host(self.host) + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def url_host(host: str) -> str:
    """Return a host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def parse_address(host: str) -> Address | None:
    """Parse a host that is an IP address; return None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def resolve_host(host: str, port: int) -> list[str]:
    """Return the distinct IP addresses of a host in order of preference, as the system's resolver returns them.

    Blocks during DNS lookups. Raises OSError or UnicodeError if the host cannot be resolved.
    """
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(result[4][0]) for result in results))


async def aresolve_host(host: str, port: int) -> list[str]:
    """Resolve a host like `resolve_host`, but without blocking the event loop."""
    return await asyncio.to_thread(resolve_host, host, port)
