"""Which addresses on the network a tool may ask: those that the project allows, and no door into its own network.

An entry of the allow-list is a host (`api.example.com`), all hosts below one (`*.example.com`), every host (`*`), or an
address; with `:8080` that port, with `:*` every port, else 80 and 443.

A name is looked up once, every address that it has is checked, and the connection goes to what was checked: a name that
leads elsewhere a moment later gains nothing. Addresses that are not public are for entries that spell the host out, and
those of metadata services for entries that spell the address out.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

from statewright.errors import ToolError
from statewright.http import is_public, must_be_spelled_out

PORTS: Final = {"http": 80, "https": 443}
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class Url:
    """An address of HTTP, taken apart."""

    scheme: str
    host: str
    """In small letters, as it is asked for in DNS, without the brackets of IPv6."""
    port: int
    target: str
    """Path and query."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def read_url(text: str, *, base: str = "") -> Url:
    """The parts of a URL, which may be relative to another. Raises ToolError for what should not be asked for."""
    try:
        parts = urlsplit(urljoin(base, text))
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except ValueError as error:
        raise ToolError(f"{text[:200]!r} is no URL: {error}.") from None
    if parts.scheme not in PORTS or not host:
        raise ToolError(f"{text[:200]!r} is no URL that can be asked for. Write https://host/path.")
    if _UNSAFE.search(text):
        raise ToolError("The URL holds spaces, backslashes or control characters. Write them as %20 and the like.")
    if parts.username is not None or parts.password is not None:
        # Not quoted: it may be a real password.
        raise ToolError(
            f"A URL for {host!r} holds a user name. Keep credentials in an integration of statewright.toml."
        )
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    target = f"{path}?{parts.query}" if parts.query else path
    if not target.isascii():
        raise ToolError(f"The URL for {host!r} holds letters outside of ASCII. Write them as %C3%A9 and the like.")
    return Url(parts.scheme, host, PORTS[parts.scheme] if port is None else port, target)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an allow-list."""

    host: str
    port: str

    def matches(self, url: Url) -> bool:
        is_below = self.host.startswith("*.") and url.host.endswith(self.host[1:])
        named = self.host in ("*", url.host) or is_below
        return named and (self.port in ("*", str(url.port)) or (not self.port and url.port in PORTS.values()))

    @property
    def is_spelled_out(self) -> bool:
        return "*" not in self.host


class Guard:
    """The hosts that a project allows."""

    def __init__(self, allow_hosts: Sequence[str]) -> None:
        self._entries = tuple(map(check_host, allow_hosts))

    def with_origin(self, url: Url) -> Guard:
        """The same, and one more: that of an integration, which whoever wrote it has allowed by writing it."""
        guard = Guard(())
        guard._entries = (*self._entries, Entry(url.host, str(url.port)))
        return guard

    def allows(self, url: Url) -> bool:
        """Whether a host and port are on the list. Where the name leads to is another question."""
        return any(entry.matches(url) for entry in self._entries)

    def spells_out(self, url: Url) -> bool:
        """Whether an entry without a wildcard allows the host."""
        return any(entry.is_spelled_out for entry in self._entries if entry.matches(url))

    def addresses(self, url: Url) -> list[str]:
        """Where to connect to for a URL, checked. It waits for DNS.

        Raises ToolError for a host that is not allowed, and ConnectionError for one that is not found.
        """
        entries = [entry for entry in self._entries if entry.matches(url)]
        if not entries:
            raise ToolError(
                f"The host {url.host!r} (port {url.port}) is not allowed. To allow it, add it to allow_hosts under "
                f"[tools] in statewright.toml."
            )
        is_spelled_out = any(entry.is_spelled_out for entry in entries)
        found = look_up(url)
        for text in found:
            self._check(url, text, is_spelled_out)
        return found

    def _check(self, url: Url, text: str, is_spelled_out: bool) -> None:
        address = ipaddress.ip_address(text)
        if must_be_spelled_out(address):
            is_allowed = _is_address(url.host) and is_spelled_out
        else:
            is_allowed = is_public(address) or is_spelled_out
        if not is_allowed:
            raise ToolError(
                f"The host {url.host!r} is at {address}, which is no public address. To allow it, spell out the "
                f"{'address' if must_be_spelled_out(address) else 'host'} in allow_hosts under [tools] in "
                f"statewright.toml."
            )


def check_host(text: str) -> Entry:
    """What an entry of an allow-list says. Raises ToolError if it is none."""
    bare = text.strip().lower()
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\[\]/:@\s]+)(?::(\*|\d{1,5}))?", bare)
    if found is None and _is_address(bare):
        return Entry(bare, "")
    host = found[1].strip("[]").rstrip(".") if found else ""
    if not host or (host != "*" and "*" in host.removeprefix("*.")):
        raise ToolError(f"{text!r} allows no host. Write example.com, *.example.com, example.com:8080 or *.")
    return Entry(host, (found[2] if found else "") or "")


def look_up(url: Url) -> list[str]:
    """The addresses of a host, each once. Raises ConnectionError if there are none."""
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"The host {url.host!r} was not found: {error}.") from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
