"""Classes of IP addresses."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from random import Random

import pytest

from statewright.http import classify_address

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "11.0.0.1",
          "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]  # fmt: skip
OTHERS = {
    "unspecified": ["0.0.0.0", "::", "::ffff:0.0.0.0"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12::1",
                "fec0::1", "::ffff:10.1.2.3", "64:ff9b::a01:203"],
    "link-local": ["169.254.1.1", "fe80::1", "::ffff:169.254.1.1"],
    "metadata": ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
                 "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"],
    "multicast": ["224.0.0.1", "239.1.1.1", "ff02::1", "ff0e::1"],
    "reserved": ["0.1.2.3", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
                 "240.0.0.1", "255.255.255.255", "2002:7f00:1::1", "2001:0:7f00:1::1", "2001:db8::1", "3fff::1",
                 "2001:20::1", "100::1", "64:ff9b:1::7f00:1", "::127.0.0.1", "5f00::1", "4000::1",
                 "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1"],
}  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_classified_as_public(address: str) -> None:
    assert classify_address(ip_address(address)) == "public"


@pytest.mark.parametrize(
    ("kind", "address"), [(kind, address) for kind, addresses in OTHERS.items() for address in addresses]
)
def test_other_addresses_have_the_class_of_their_purpose(kind: str, address: str) -> None:
    assert classify_address(ip_address(address)) == kind


def test_an_address_with_a_zone_is_not_public() -> None:
    assert classify_address(ip_address("2606:4700::1111%eth0")) == "reserved"


@pytest.mark.parametrize(
    "network", ["10.0.0.0/8", "127.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "224.0.0.0/3", "fc00::/7", "fe80::/10"]
)
def test_no_address_of_a_special_network_is_public(network: str) -> None:
    whole, random = ip_network(network), Random(7)
    sample = [whole[0], whole[-1], *(whole[random.randrange(whole.num_addresses)] for _ in range(200))]
    assert "public" not in {classify_address(address) for address in sample}


def test_no_address_that_python_considers_private_is_public() -> None:
    """Python's tables are independent of ours, which are stricter."""
    random = Random(11)
    drawn = [ip_address(random.getrandbits(32)) for _ in range(20_000)]
    public = [address for address in drawn if classify_address(address) == "public"]
    assert [address for address in public if not address.is_global or address.is_multicast] == []
