"""Insecure settings are refused."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.server.settings import ServerSettings, is_loopback

LOOPBACK = ["127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "localhost.", "::1", "[::1]", "::1%lo"]
ELSEWHERE = ["0.0.0.0", "::", "192.168.0.1", "example.org", "localhost.example.org", "127.0.0.1.example.org", ""]


@pytest.mark.parametrize("host", LOOPBACK)
def test_without_keys_on_loopback(host: str):
    assert is_loopback(host)
    assert ServerSettings(host=host, auth="none").auth == "none"


@pytest.mark.parametrize("host", ELSEWHERE)
def test_without_keys_elsewhere_is_refused(host: str):
    assert not is_loopback(host)
    with pytest.raises(InvalidConfig, match="auth='keys'"):
        ServerSettings(host=host, auth="none")
    assert ServerSettings(host=host).auth == "keys"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"auth": "key"}, "Did you mean 'keys'"),
        ({"cors_origins": ["*"]}, "Wildcards"),
        ({"cors_origins": ["example.org"]}, "not a valid origin"),
        ({"cors_origins": ["https://example.org/"]}, "not a valid origin"),
        ({"cors_origins": ["https://"]}, "not a valid origin"),
        ({"cors_origins": ["null"]}, "not a valid origin"),
        ({"max_body": 0}, "max_body"),
        ({"heartbeat": 0}, "heartbeat"),
        ({"drain_timeout": -1}, "drain_timeout"),
        ({"admin_token": "short"}, "fewer than 16"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(InvalidConfig, match=message):
        ServerSettings(**settings)
