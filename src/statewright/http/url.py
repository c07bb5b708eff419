"""Parsed URLs, and the resolution of their hosts."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from statewright.http.addresses import Address

PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed HTTP URL."""

    scheme: str
    host: str
    """Lower-case ASCII, without the brackets of IPv6."""
    port: int
    target: str
    """Path and query."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port, as sent in the header `host`."""
        return url_host(self.host) + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def url_host(host: str) -> str:
    """Return a host as written in a URL."""
    return f"[{host}]" if ":" in host else host


def parse_address(host: str) -> Address | None:
    """Return the IP address that a host is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def look_up(host: str, port: int) -> list[str]:
    """Return the distinct addresses of a host from the system's resolver, in order of preference. Blocks for DNS.

    Raises OSError or UnicodeError if there are none.
    """
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(result[4][0]) for result in results))


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of a host like `look_up`, without blocking the event loop."""
    return await asyncio.to_thread(look_up, host, port)
