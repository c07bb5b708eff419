"""Parsed URLs, and the system's resolver."""

from __future__ import annotations

import asyncio

import pytest

from statewright.http import Url, aresolve_host, parse_address


@pytest.mark.parametrize(
    ("url", "authority", "text"),
    [
        (Url("https", "a.example", 443, "/x?y"), "a.example", "https://a.example/x?y"),
        (Url("http", "a.example", 443, "/"), "a.example:443", "http://a.example:443/"),
        (Url("https", "2001:db8::1", 8443, "/"), "[2001:db8::1]:8443", "https://[2001:db8::1]:8443/"),
    ],
)
def test_the_default_port_is_omitted(url: Url, authority: str, text: str) -> None:
    assert (url.authority, str(url)) == (authority, text)


def test_only_addresses_are_parsed_as_addresses() -> None:
    assert str(parse_address("127.0.0.1")) == "127.0.0.1"
    assert parse_address("localhost") is None


def test_localhost_is_resolved() -> None:
    addresses = asyncio.run(aresolve_host("localhost", 80))
    assert addresses
    assert set(addresses) <= {"127.0.0.1", "::1"}
    assert len(set(addresses)) == len(addresses)
