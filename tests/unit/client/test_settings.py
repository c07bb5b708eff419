"""Settings of a client."""

from __future__ import annotations

import pytest

from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.errors import InvalidConfig
from statewright.server import ServerSettings


def test_the_default_address_is_the_default_of_the_server() -> None:
    server = ServerSettings()
    assert f"http://{server.host}:{server.port}" == DEFAULT_URL


@pytest.mark.parametrize("options", [{"base_url": "localhost:8123"}, {"timeout": 0}, {"retries": -1}], ids=str)
def test_invalid_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        ClientSettings(**options)  # pyright: ignore


def test_pauses_grow_up_to_the_longest() -> None:
    settings = ClientSettings(first_pause=1, longest_pause=5)
    for failures, longest in enumerate([1, 2, 4, 5, 5], 1):
        assert all(longest / 2 <= settings.pause(failures) <= longest for _ in range(20))
