"""Allowed addresses of webhooks: none through which the service could be made to reach its private network.

An address is checked twice: when a webhook is created, so that its owner learns at once what is wrong, and at each
delivery, where the name is resolved once and the result is connected to. So a name that resolves to another address
later gains nothing. Notations that programs interpret differently, such as `0x7f.1`, are refused."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from statewright.errors import InvalidRequest
from statewright.http import Address, Kind, kind_of
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, WebhookSettings

_MAX_LENGTH: Final = 2048
_SIGNS: Final = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+", re.ASCII)
"""The allowed characters of a URL; no backslash, no space, ASCII only."""
_FORM: Final = re.compile(r"(?P<scheme>[a-z]+)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)", re.ASCII | re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_TRIED: Final = 3
"""Of many addresses of one name no more are connected to."""


class Target(NamedTuple):
    """A parsed URL."""

    scheme: str
    host: str
    """In lower case, without brackets."""
    port: int
    rest: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """Host and port, as sent in the header `host`."""
        return url_host(self.host) + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def url_host(host: str) -> str:
    """Return a host as written in a URL."""
    return f"[{host}]" if ":" in host else host


async def check_url(url: str, settings: WebhookSettings = DEFAULT_SETTINGS) -> None:
    """Raise InvalidRequest unless messages may be sent to a URL, and its host can be found."""
    await find_addresses(read_url(url, settings), settings)


def read_url(url: str, settings: WebhookSettings = DEFAULT_SETTINGS) -> Target:
    """Return the parts of a URL. Raises InvalidRequest for one that may not be called, as far as the text shows it."""
    if len(url) > _MAX_LENGTH:
        raise _refused(f"has {len(url)} characters; at most {_MAX_LENGTH} are allowed")
    if not _SIGNS.fullmatch(url) or not (found := _FORM.fullmatch(url)):
        raise _refused(
            f"is {url!r}, and not of the form https://host/path in plain ASCII, without spaces, backslashes and #. "
            f"Write what is beyond ASCII as %xx, and such a host as xn--..."
        )
    scheme, authority = found["scheme"].lower(), found["authority"]
    if scheme not in _PORTS:
        raise _refused(f"begins with {scheme}://. Use https://")
    if "@" in authority:
        raise _refused("holds a name or a password. Messages are signed instead: remove them")
    host, port = _host_and_port(authority, scheme)
    target = Target(scheme, host, port, found["rest"] if found["rest"].startswith("/") else f"/{found['rest']}")
    if not is_allowed(target, settings):
        _check_open(target, settings)
    return target


def is_allowed(target: Target, settings: WebhookSettings) -> bool:
    """Return whether a host may be called whatever its address is."""
    names = {target.host, url_host(target.host), f"{url_host(target.host)}:{target.port}"}
    return any(one.lower() in names for one in settings.allow_hosts)


async def find_addresses(target: Target, settings: WebhookSettings = DEFAULT_SETTINGS) -> list[str]:
    """Return the addresses to connect to, in the order in which to try them.

    Raises InvalidRequest if there is none, or one among them may not be called. The error does not name it,
    so that callers cannot explore a network through it.
    """
    try:
        found = [ip_address(one) for one in await _look_up(target, settings)]
    except (OSError, UnicodeError, ValueError):
        found = []
    if not found:
        raise _refused(f"has the host {target.host!r}, which cannot be resolved. Check its name, or try again later")
    if not is_allowed(target, settings):
        for address in found:
            _check_address(address, target, settings)
    return [str(address) for address in found[:_TRIED]]


async def _look_up(target: Target, settings: WebhookSettings) -> list[str]:
    return [target.host] if _literal(target.host) else list(await settings.resolve(target.host, target.port))


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise _refused(f"has {authority!r} where a host is expected, and a port as a number if one is needed")
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 0 < port < 65536:
        raise _refused(f"has the port {port}; ports go from 1 to 65535")
    host = found["host"].lower()
    return (_ipv6(host) if host.startswith("[") else _name_or_ipv4(host)), port


def _ipv6(host: str) -> str:
    try:
        address = IPv6Address(host[1:-1])
    except ValueError:
        address = None
    if address is None or address.scope_id is not None:
        raise _refused(f"has the host {host!r}, which is not a valid IPv6 address") from None
    return str(address)


def _name_or_ipv4(host: str) -> str:
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _refused(f"has the host {host!r}. Write an IPv4 address as four decimal numbers") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused(f"has the host {host!r}, which is not a valid host name. Remove a trailing dot")
    return host


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _check_open(target: Target, settings: WebhookSettings) -> None:
    """Check the rules for hosts that are not explicitly allowed. Raises InvalidRequest."""
    if target.scheme == "http" and not settings.allow_http:
        raise _refused("begins with http://, where the messages can be read in transit. Use https://")
    if target.port < 1024 and target.port not in _PORTS.values():
        raise _refused(f"has the port {target.port}, which belongs to another protocol. Use 443, or one above 1023")
    address = _literal(target.host)
    if address is not None:
        _check_address(address, target, settings)
    elif target.host.rpartition(".")[2] == "localhost" or ("." not in target.host and not settings.allow_private):
        raise _refused(f"has the host {target.host!r}, which is not public")


def _check_address(address: Address, target: Target, settings: WebhookSettings) -> None:
    kind = kind_of(address)
    if kind != "public" and not (kind == "private" and settings.allow_private):
        raise _refused(_not_public(target.host, kind))


def _not_public(host: str, kind: Kind) -> str:
    if _literal(host):
        return f"has the host {host!r}, which is not public: it is {kind}"
    return f"has the host {host!r}, which leads to an address that is not public"


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(f"The URL of a webhook {what.rstrip('.')}.", details={"field": "url"})
