"""Settings of webhooks, and how the system looks names up."""

from __future__ import annotations

import asyncio

import pytest

from statewright.errors import InvalidConfig
from statewright.service.webhooks.settings import WebhookSettings, resolve_by_system


@pytest.mark.parametrize("name", ["timeout", "disable_after", "at_once", "at_once_per_webhook", "max_per_workspace"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_numbers_must_be_above_zero(name: str, value: float) -> None:
    with pytest.raises(InvalidConfig, match=rf"WebhookSettings\({name}="):
        WebhookSettings(**{name: value})  # pyright: ignore[reportArgumentType]


def test_one_host_is_no_list() -> None:
    with pytest.raises(InvalidConfig, match="give a list"):
        WebhookSettings(allow_hosts="localhost")


def test_the_system_knows_this_machine() -> None:
    found = asyncio.run(resolve_by_system("localhost", 80))
    assert found
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(set(found)) == len(found)
