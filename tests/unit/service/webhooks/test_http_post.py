"""Sending one message, without a network; the integration tests cover the rest."""

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
def test_a_forbidden_address_is_reported_as_an_error(url: str) -> None:
    answer = post(url, WebhookSettings())
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("The URL of a webhook ")


def test_a_host_name_is_resolved_for_each_attempt() -> None:
    """A name that was public when the webhook was created may resolve to another address later."""
    lookups: list[tuple[str, int]] = []

    async def resolve_to_loopback(host: str, port: int) -> Sequence[str]:
        lookups.append((host, port))
        return ["127.0.0.1"]

    settings = WebhookSettings(resolve=resolve_to_loopback)
    for _ in range(2):
        assert post("https://hooks.example.com:8443/", settings).error == (
            "The URL of a webhook has the host 'hooks.example.com', which resolves to an address that is not public."
        )
    assert lookups == [("hooks.example.com", 8443)] * 2


def test_resolving_the_host_name_counts_towards_the_timeout() -> None:
    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        raise AssertionError

    answer = post("https://hooks.example.com/", WebhookSettings(resolve=slow, timeout=0.05))
    assert answer == Answer(None, "The receiver did not answer within 0.05 s.")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)  # makes the import fail
    with pytest.raises(InvalidConfig, match=r"pip install 'statewright\[server\]'"):
        post("http://127.0.0.1:9/", ALLOWED)
