"""The network allow-list of tools, with protection against server-side request forgery.

An entry allows a host (`api.example.com`), all subdomains of a host (`*.example.com`), every host (`*`), or an address.
It may be followed by a port (`:8080`) or by `:*` for every port. Otherwise it allows the ports 80 and 443.

Checking the name alone would not protect a private network, because any name may resolve to a private address, or to
another address a moment later. So a name is resolved once, all of its addresses are checked, and the connection uses
only these addresses. An address that is not public needs an entry with the exact host, and the address of a metadata
service needs an entry with the exact address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin, urlsplit

from statewright.errors import ToolError
from statewright.http import PORTS, Url, is_public, must_be_allowed_by_address, parse_address, resolve_host

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")


def read_url(text: str, *, base: str = "") -> Url:
    """Parse a URL, which may be relative to `base`. Raises ToolError for a URL that must not be requested."""
    try:
        parts = urlsplit(urljoin(base, text))
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except ValueError as error:
        raise ToolError(f"{text[:200]!r} is not a URL: {error}. Write https://host/path.") from None
    if parts.scheme not in PORTS or not host:
        raise ToolError(f"{text[:200]!r} is not an HTTP URL. Write https://host/path.")
    if _UNSAFE.search(text):
        raise ToolError("The URL contains spaces, backslashes or control characters. Percent-encode them, as %20.")
    if parts.username is not None or parts.password is not None:
        # The URL is not quoted: it may contain a real password.
        raise ToolError(f"A URL for {host!r} contains credentials. Store them in an integration of statewright.toml.")
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    target = f"{path}?{parts.query}" if parts.query else path
    if not target.isascii():
        raise ToolError(f"The URL for {host!r} contains characters outside ASCII. Percent-encode them, as %C3%A9.")
    return Url(parts.scheme, host, PORTS[parts.scheme] if port is None else port, target)


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """An entry of an allow-list."""

    host: str
    port: str
    """A number as text, `*` for every port, or an empty string for the ports 80 and 443."""

    def matches(self, url: Url) -> bool:
        is_subdomain = self.host.startswith("*.") and url.host.endswith(self.host[1:])
        matches_host = self.host in ("*", url.host) or is_subdomain
        return matches_host and (self.port in ("*", str(url.port)) or (not self.port and url.port in PORTS.values()))

    @property
    def is_exact(self) -> bool:
        """True if the host contains no wildcard."""
        return "*" not in self.host


class Guard:
    """The allow-list of a project."""

    def __init__(self, allow_hosts: Sequence[str]) -> None:
        self._entries = tuple(map(parse_allowed_host, allow_hosts))

    def with_origin(self, url: Url) -> Guard:
        """Return a copy that also allows the origin of an integration, which the project allows by defining it."""
        guard = Guard(())
        guard._entries = (*self._entries, AllowedHost(url.host, str(url.port)))
        return guard

    def allows(self, url: Url) -> bool:
        """Return whether the host and port of a URL are on the list. Addresses are not checked."""
        return any(entry.matches(url) for entry in self._entries)

    def names_exactly(self, url: Url) -> bool:
        """Return whether an entry without a wildcard allows the host."""
        return any(entry.is_exact for entry in self._entries if entry.matches(url))

    def resolve(self, url: Url) -> list[str]:
        """Return the addresses of a URL's host, after checking that each of them is allowed. Blocks for DNS.

        Raises ToolError for a host or an address that is not allowed, and ConnectionError if the host does not exist.
        """
        if not self.allows(url):
            raise ToolError(
                f"The host {url.host!r} (port {url.port}) is not allowed. To allow it, add it to allow_hosts under "
                f"[tools] in statewright.toml."
            )
        try:
            addresses = resolve_host(url.host, url.port)
        except (OSError, UnicodeError) as error:
            raise ConnectionError(f"The host {url.host!r} cannot be resolved: {error}.") from None
        is_exact = self.names_exactly(url)
        for address in map(ip_address, addresses):
            is_metadata = must_be_allowed_by_address(address)
            is_listed_exactly = is_exact and (not is_metadata or parse_address(url.host) is not None)
            if not is_listed_exactly and (is_metadata or not is_public(address)):
                raise ToolError(
                    f"The host {url.host!r} resolves to {address}, which is not a public address. To allow it, add the "
                    f"exact {'address' if is_metadata else 'host'} to allow_hosts under [tools] in statewright.toml."
                )
        return addresses


def parse_allowed_host(text: str) -> AllowedHost:
    """Parse an entry of an allow-list. Raises ToolError if it is not valid."""
    entry = text.strip().lower()
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\[\]/:@\s]+)(?::(\*|\d{1,5}))?", entry)
    if match is None and parse_address(entry) is not None:  # an IPv6 address without brackets
        return AllowedHost(entry, "")
    host = match[1].strip("[]").rstrip(".") if match else ""
    if not host or (host != "*" and "*" in host.removeprefix("*.")):
        raise ToolError(f"{text!r} is not a host. Write example.com, *.example.com, example.com:8080 or *.")
    return AllowedHost(host, (match[2] if match else "") or "")
