"""Which addresses of IP belong to the public internet.

What is not known to be public is not: of IPv6 only the part that is given out for global use, and nothing of it that
stands for an address of IPv4 in a tunnel. Two forms that carry an address of IPv4 are judged by it, because hosts do
use them: mapped addresses, which the system connects to over IPv4, and those of NAT64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal

Address = IPv4Address | IPv6Address
Kind = Literal["public", "private", "loopback", "link-local", "multicast", "reserved", "unspecified", "metadata"]
"""`private` are networks of a house, those behind a provider's translation among them; `metadata` are the services
through which clouds tell machines their secrets."""

_METADATA: Final = frozenset(
    ip_address(one)
    for one in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
_IPV4: Final[Mapping[str, Kind]] = {
    "0.0.0.0/32": "unspecified",
    "0.0.0.0/8": "reserved",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "private",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "reserved",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "reserved",
    "198.51.100.0/24": "reserved",
    "203.0.113.0/24": "reserved",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_IPV6: Final[Mapping[str, Kind]] = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
    "2001::/23": "reserved",  # for protocols: Teredo, ORCHID, benchmarks
    "2001:db8::/32": "reserved",
    "2002::/16": "reserved",  # 6to4
    "2620:4f:8000::/48": "reserved",
    "3fff::/20": "reserved",
    "2000::/3": "public",
}
_NETWORKS_4: Final[Sequence[tuple[IPv4Network, Kind]]] = [(IPv4Network(one), kind) for one, kind in _IPV4.items()]
_NETWORKS_6: Final[Sequence[tuple[IPv6Network, Kind]]] = [(IPv6Network(one), kind) for one, kind in _IPV6.items()]
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The middle of an address in whose last four bytes one of IPv4 stands that a tunnel leads to."""


def kind_of(address: Address) -> Kind:
    """What an address is for."""
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return _first([kind for network, kind in _NETWORKS_4 if address in network], "public")
    if (within := _ipv4_within(address)) is not None:
        return kind_of(within)
    if address.scope_id is not None or int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return "reserved"
    return _first([kind for network, kind in _NETWORKS_6 if address in network], "reserved")


def _first(kinds: Sequence[Kind], otherwise: Kind) -> Kind:
    """Narrow networks stand before the wide ones that hold them."""
    return kinds[0] if kinds else otherwise


def _ipv4_within(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped
