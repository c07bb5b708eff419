"""Settings of webhooks."""

from __future__ import annotations

import pytest

from statewright.errors import InvalidConfig
from statewright.service.webhooks.settings import WebhookSettings


@pytest.mark.parametrize("name", ["timeout", "disable_after", "at_once", "at_once_per_webhook", "max_per_workspace"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_numbers_must_be_above_zero(name: str, value: float) -> None:
    with pytest.raises(InvalidConfig, match=rf"WebhookSettings\({name}="):
        WebhookSettings(**{name: value})  # pyright: ignore[reportArgumentType]


def test_a_string_is_not_a_list_of_hosts() -> None:
    with pytest.raises(InvalidConfig, match="give a list"):
        WebhookSettings(allow_hosts="localhost")
