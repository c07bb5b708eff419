"""The URLs that webhooks may have. They exclude the private network of the service.

A URL is checked when a webhook is created, so that its owner sees the error at once, and again at each delivery. A
delivery resolves the host name once, and connects to the addresses that were checked, so that an attacker gains nothing
by changing what the name resolves to. Notations that programs interpret differently, such as `0x7f.1`, are refused.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from statewright.errors import InvalidRequest
from statewright.http import PORTS, Address, Url, classify_address, parse_address, url_host
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, WebhookSettings

_MAX_URL_LENGTH: Final = 2048
_ALLOWED: Final = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+", re.ASCII)
"""The characters that a URL may contain: ASCII only, without spaces and backslashes."""
_URL: Final = re.compile(r"(?P<scheme>[a-z]+)://(?P<authority>[^/?#]*)(?P<target>[^#]*)", re.ASCII | re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_MAX_ADDRESSES: Final = 3
"""Maximum number of addresses of one host that a delivery tries."""


async def check_url(url: str, settings: WebhookSettings = DEFAULT_SETTINGS) -> None:
    """Raise InvalidRequest unless messages may be sent to a URL, and its host can be resolved."""
    await find_addresses(read_url(url, settings), settings)


def read_url(url: str, settings: WebhookSettings = DEFAULT_SETTINGS) -> Url:
    """Parse a URL. Raises InvalidRequest if it is malformed, or is refused whatever its host resolves to."""
    if len(url) > _MAX_URL_LENGTH:
        raise _refusal(f"has {len(url)} characters; at most {_MAX_URL_LENGTH} are allowed")
    if not _ALLOWED.fullmatch(url) or not (match := _URL.fullmatch(url)):
        raise _refusal(
            f"is {url!r}, which is not of the form https://host/path in plain ASCII, without spaces, backslashes and "
            f"#. Encode other characters as %xx, and in host names as xn--..."
        )
    scheme, authority, target = match["scheme"].lower(), match["authority"], match["target"]
    if scheme not in PORTS:
        raise _refusal(f"begins with {scheme}://. Use https://")
    if "@" in authority:
        raise _refusal("contains a user name or password. Remove it, and verify the signature of messages instead")
    host, port = _parse_authority(authority, scheme)
    parsed_url = Url(scheme, host, port, target if target.startswith("/") else f"/{target}")
    if not is_host_allowed(parsed_url, settings):
        _check_public(parsed_url, settings)
    return parsed_url


def is_host_allowed(url: Url, settings: WebhookSettings) -> bool:
    """Return True if the setting `allow_hosts` names the host of a URL, which may then have any address."""
    names = {url.host, url_host(url.host), f"{url_host(url.host)}:{url.port}"}
    return any(host.lower() in names for host in settings.allow_hosts)


async def find_addresses(url: Url, settings: WebhookSettings = DEFAULT_SETTINGS) -> list[str]:
    """Return the addresses of a URL's host, in the order in which to try them.

    Raises InvalidRequest if the host has no address, or an address that may not be called. The error does not contain
    the address, so that callers cannot explore a network.
    """
    is_literal = parse_address(url.host) is not None
    try:
        texts = [url.host] if is_literal else await settings.resolve(url.host, url.port)
        addresses = [ip_address(text) for text in texts]
    except (OSError, ValueError):
        addresses = []
    if not addresses:
        raise _refusal(f"has the host {url.host!r}, which cannot be resolved. Check its name, or try again later")
    if not is_host_allowed(url, settings):
        for address in addresses:
            _check_address(address, url, settings)
    return [str(address) for address in addresses[:_MAX_ADDRESSES]]


def _parse_authority(authority: str, scheme: str) -> tuple[str, int]:
    """Return the host and the port of a URL's authority. The scheme determines the default port."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _refusal(f"has {authority!r} where a host is expected, optionally with a port number")
    port = int(match["port"]) if match["port"] else PORTS[scheme]
    if not 0 < port < 65536:
        raise _refusal(f"has the port {port}. Use a port from 1 to 65535")
    host = match["host"].lower()
    return (_parse_ipv6(host) if host.startswith("[") else _parse_name_or_ipv4(host)), port


def _parse_ipv6(host: str) -> str:
    """Return the canonical form of an IPv6 address in brackets."""
    try:
        address = IPv6Address(host[1:-1])
    except ValueError:
        address = None
    if address is None or address.scope_id is not None:
        raise _refusal(f"has the host {host!r}, which is not a valid IPv6 address") from None
    return str(address)


def _parse_name_or_ipv4(host: str) -> str:
    """Return a host if it is a valid name or IPv4 address. Raises InvalidRequest otherwise."""
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _refusal(f"has the host {host!r}. Write an IPv4 address as four decimal numbers") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refusal(f"has the host {host!r}, which is not a valid host name. Remove a trailing dot")
    return host


def _check_public(url: Url, settings: WebhookSettings) -> None:
    """Raise InvalidRequest if a URL breaks the rules for hosts that `allow_hosts` does not name."""
    if url.scheme == "http" and not settings.allow_http:
        raise _refusal("begins with http://, so messages could be read in transit. Use https://")
    if url.port < 1024 and url.port not in PORTS.values():
        raise _refusal(f"has the port {url.port}, which belongs to another protocol. Use 443, or a port above 1023")
    address = parse_address(url.host)
    if address is not None:
        _check_address(address, url, settings)
    elif url.host.rpartition(".")[2] == "localhost" or ("." not in url.host and not settings.allow_private):
        raise _refusal(f"has the host {url.host!r}, which is not public")


def _check_address(address: Address, url: Url, settings: WebhookSettings) -> None:
    address_class = classify_address(address)
    if address_class == "public" or (address_class == "private" and settings.allow_private):
        return
    if parse_address(url.host) is not None:
        raise _refusal(f"has the host {url.host!r}, which is not public: it is {address_class}")
    raise _refusal(f"has the host {url.host!r}, which resolves to an address that is not public")


def _refusal(problem: str) -> InvalidRequest:
    return InvalidRequest(f"The URL of a webhook {problem.rstrip('.')}.", details={"field": "url"})
