"""The classification of IP addresses, by which webhooks and tools decide whether they may connect.

Only addresses that are known to be public are classified as public. In IPv6, these are the addresses that are assigned
for global use, except those that embed an IPv4 address for a tunnel. Two forms with an embedded IPv4 address are in
common use and are classified by that address: mapped addresses, to which the system connects over IPv4, and NAT64. The
address of a tunnel to a metadata service is classified as `metadata`, so that no form of the service's address is
treated as less dangerous than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal

Address = IPv4Address | IPv6Address
Kind = Literal["public", "private", "loopback", "link-local", "multicast", "reserved", "unspecified", "metadata"]
"""The kind of an address. `private` includes the shared addresses behind a provider's NAT (RFC 6598). `metadata` is for
the services from which machines in a cloud fetch their credentials."""

_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, and most others
        "169.254.170.2",  # AWS, tasks of ECS
        "169.254.170.23",  # AWS, pods of EKS
        "169.254.0.23",  # Tencent
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure, the host agent
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, pods of EKS
        "fd20:ce::254",  # Google
        "fd00:42::42",  # Scaleway
        "fd00:c1::a9fe:a9fe",  # Oracle
    )
)
_IPV4_KINDS: Final[Mapping[str, Kind]] = {
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
_IPV6_KINDS: Final[Mapping[str, Kind]] = {
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
_IPV4: Final[Sequence[tuple[IPv4Network, Kind]]] = [(IPv4Network(text), kind) for text, kind in _IPV4_KINDS.items()]
_IPV6: Final[Sequence[tuple[IPv6Network, Kind]]] = [(IPv6Network(text), kind) for text, kind in _IPV6_KINDS.items()]
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
"""Two obsolete forms of addresses with an IPv4 address in the last four bytes: compatible and translated addresses."""
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The third group of four bytes in an ISATAP address. The last four bytes are the IPv4 address at a tunnel's end."""


def classify_address(address: Address) -> Kind:
    """Return the kind of an address."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        # An address has a scope only if it is not unique without a network interface, so it is not public.
        kind = classify_address(IPv6Address(int(address)))
        return kind if kind in ("metadata", "link-local") else "reserved"
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return _find_kind(address, _IPV4, otherwise="public")
    if (mapped := _mapped_address(address)) is not None:
        return classify_address(mapped)
    if any(classify_address(end) == "metadata" for end in _tunnel_ends(address)):
        return "metadata"
    if _is_isatap(address):
        return "reserved"
    return _find_kind(address, _IPV6, otherwise="reserved")


def is_public(address: Address) -> bool:
    """Return True for an address of the public internet."""
    return classify_address(address) == "public"


def must_be_allowed_by_address(address: Address) -> bool:
    """Return True for an address to which a host name must not resolve: a link-local address or a metadata service.

    Any machine on the link can claim a link-local address, and a user who allows a host name hardly expects the name to
    resolve to such an address. The user can still allow the address itself.
    """
    return classify_address(address) in ("metadata", "link-local")


def _find_kind(
    address: Address, networks: Sequence[tuple[IPv4Network | IPv6Network, Kind]], *, otherwise: Kind
) -> Kind:
    """Return the kind of the first network that contains an address, or `otherwise`.

    Of two networks that overlap, the smaller one must come first.
    """
    for network, kind in networks:
        if address in network:
            return kind
    return otherwise


def _mapped_address(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which connections to an IPv6 address go; None if they go to the address itself."""
    return _last_four_bytes(address) if address in _NAT64 else address.ipv4_mapped


def _tunnel_ends(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an address embeds for a tunnel: 6to4, Teredo, ISATAP or an obsolete form."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if _is_isatap(address) or address in _LOCAL_NAT64 or any(address in network for network in _COMPATIBLE):
        yield _last_four_bytes(address)


def _is_isatap(address: IPv6Address) -> bool:
    return int(address) >> 32 & 0xFFFFFFFF in _ISATAP


def _last_four_bytes(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
