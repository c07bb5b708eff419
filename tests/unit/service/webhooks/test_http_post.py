"""Sending one message, as far as no network is needed; see the integration tests for the rest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import pytest

from statewright.errors import InvalidConfig
from statewright.service.webhooks import Answer, HttpPost, WebhookSettings

ALLOWED = WebhookSettings(allow_hosts=["127.0.0.1"])


def post(url: str, settings: WebhookSettings) -> Answer:
    async def run() -> Answer:
        return await HttpPost(settings)(url, b"{}", {"content-type": "application/json"})

    return asyncio.run(run())


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://[::1]/", "https://0x7f.1/", "http://8.8.8.8/", "x"])
def test_an_address_that_may_not_be_called_is_an_answer(url: str) -> None:
    answer = post(url, WebhookSettings())
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("The URL of a webhook ")


def test_a_name_is_looked_up_at_each_try() -> None:
    """So a name that was public when the webhook was made gains nothing by leading elsewhere now."""
    asked: list[tuple[str, int]] = []

    async def rebound(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    settings = WebhookSettings(resolve=rebound)
    for _ in range(2):
        assert post("https://hooks.example.com:8443/", settings).error == (
            "The URL of a webhook has the host 'hooks.example.com', which resolves to an address that is not public."
        )
    assert asked == [("hooks.example.com", 8443)] * 2


def test_the_look_up_counts_as_part_of_the_try() -> None:
    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        raise AssertionError

    answer = post("https://hooks.example.com/", WebhookSettings(resolve=slow, timeout=0.05))
    assert answer == Answer(None, "The receiver did not answer within 0.05 s.")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)  # as Python does for what cannot be imported
    with pytest.raises(InvalidConfig, match=r"pip install 'statewright\[server\]'"):
        post("http://127.0.0.1:9/", ALLOWED)
