"""Webhooks of a workspace: creation, listing, changes, removal and test messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from statewright.errors import InvalidRequest, NotFound, RequestConflict
from statewright.runs import Announce, Delivery, InMemoryLedger, Update, Webhook
from statewright.service.webhooks import (
    WebhookSettings,
    add_webhook,
    change_webhook,
    deliveries_of,
    get_webhook,
    list_webhooks,
    remove_webhook,
    send_test,
)
from statewright.service.webhooks.signature import secrets_of

T = TypeVar("T")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://hooks.example.com/a"


async def resolve(host: str, port: int) -> Sequence[str]:
    return {"hooks.example.com": ["93.184.216.34"]}.get(host, ["127.0.0.1"])


SETTINGS = WebhookSettings(resolve=resolve, max_per_workspace=3)


def wait_for(awaitable: Awaitable[T]) -> T:
    async def run() -> T:
        return await awaitable

    return asyncio.run(run())


@pytest.fixture
def ledger() -> InMemoryLedger:
    return InMemoryLedger()


@pytest.fixture
def webhook(ledger: InMemoryLedger) -> Webhook:
    return wait_for(add_webhook(ledger, "a", URL, ["workflow.failed"], "mine", now=NOW, settings=SETTINGS)).webhook


def stored(ledger: InMemoryLedger, webhook: Webhook) -> Webhook:
    result = ledger.get(Webhook, webhook.id)
    assert result is not None
    return result


def test_a_secret_is_shown_once(ledger: InMemoryLedger) -> None:
    created = wait_for(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    assert created.secret is not None
    assert created.secret.startswith("whsec_")
    assert secrets_of(stored(ledger, created.webhook), NOW) == [created.secret]
    returned = [
        created.webhook,
        *wait_for(list_webhooks(ledger, "a"))[0],
        wait_for(get_webhook(ledger, "a", created.webhook.id)),
        wait_for(change_webhook(ledger, "a", created.webhook.id, description="x", now=NOW)).webhook,
    ]
    assert [created.secret in repr(item) for item in returned] == [False] * 4


def test_requested_fields_are_stored(webhook: Webhook) -> None:
    assert webhook.id.startswith("whk_")
    assert (webhook.url, webhook.events, webhook.description, webhook.active, webhook.created_at) == (
        URL, ["workflow.failed"], "mine", True, NOW,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "events", "description"),
    [
        ("https://127.0.0.1/", [], ""),
        ("https://inside.example.com/", [], ""),
        (URL, ["workflow.compleeted"], ""),
        (URL, [], "x" * 1001),
    ],
)
def test_invalid_webhooks_are_refused(
    ledger: InMemoryLedger, webhook: Webhook, url: str, events: list[str], description: str
) -> None:
    before = stored(ledger, webhook)
    with pytest.raises(InvalidRequest):
        wait_for(add_webhook(ledger, "a", url, events, description, now=NOW, settings=SETTINGS))
    changed = change_webhook(
        ledger, "a", webhook.id, url=url, events=events, description=description, now=NOW, settings=SETTINGS
    )
    with pytest.raises(InvalidRequest):
        wait_for(changed)
    assert ledger.find(Webhook) == [before]


def test_the_number_of_webhooks_is_limited_for_each_workspace(ledger: InMemoryLedger) -> None:
    for _ in range(3):
        wait_for(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    with pytest.raises(RequestConflict, match="has 3 webhooks already"):
        wait_for(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    wait_for(add_webhook(ledger, "b", URL, now=NOW, settings=SETTINGS))


def test_webhooks_are_listed_newest_first_in_pages(ledger: InMemoryLedger) -> None:
    created = [
        wait_for(add_webhook(ledger, "a", URL, now=NOW + timedelta(seconds=number), settings=SETTINGS)).webhook
        for number in range(3)
    ]
    result, total = wait_for(list_webhooks(ledger, "a", limit=2, offset=1))
    assert ([item.id for item in result], total) == ([created[1].id, created[0].id], 3)
    assert wait_for(list_webhooks(ledger, "b")) == ([], 0)


@pytest.mark.parametrize("workspace", ["b", ""])
def test_webhooks_of_other_workspaces_are_not_found(ledger: InMemoryLedger, webhook: Webhook, workspace: str) -> None:
    for call in (
        get_webhook(ledger, workspace, webhook.id),
        change_webhook(ledger, workspace, webhook.id, active=False, rotate_secret=True, now=NOW),
        remove_webhook(ledger, workspace, webhook.id),
        deliveries_of(ledger, workspace, webhook.id),
        send_test(ledger, workspace, webhook.id, now=NOW),
        get_webhook(ledger, "a", "whk_unknown"),
    ):
        with pytest.raises(NotFound, match=r"Webhook 'whk_[^']*' does not exist"):
            wait_for(call)
    assert stored(ledger, webhook).active
    assert ledger.count(Delivery) == 0


def test_a_change_keeps_other_fields(ledger: InMemoryLedger, webhook: Webhook) -> None:
    before = stored(ledger, webhook)
    assert wait_for(change_webhook(ledger, "a", webhook.id, now=NOW)).secret is None
    assert stored(ledger, webhook) == before
    wait_for(change_webhook(ledger, "a", webhook.id, events=[], description="", now=NOW))
    after = stored(ledger, webhook)
    assert (after.events, after.description, after.url, after.active) == ([], "", URL, True)


def test_reactivating_a_webhook_resets_its_failures(ledger: InMemoryLedger, webhook: Webhook) -> None:
    ledger.write([Update(Webhook, webhook.id, {"active": False, "failures": 10, "disabled_reason": "410"})])
    reactivated = wait_for(change_webhook(ledger, "a", webhook.id, active=True, now=NOW)).webhook
    assert (reactivated.active, reactivated.failures, reactivated.disabled_reason) == (True, 0, None)
    assert not wait_for(change_webhook(ledger, "a", webhook.id, active=False, now=NOW)).webhook.active


def test_a_rotated_secret_is_returned_and_the_previous_one_is_valid_for_a_day(
    ledger: InMemoryLedger, webhook: Webhook
) -> None:
    (old_secret,) = secrets_of(stored(ledger, webhook), NOW)
    new_secret = wait_for(change_webhook(ledger, "a", webhook.id, rotate_secret=True, now=NOW)).secret
    assert secrets_of(stored(ledger, webhook), NOW + timedelta(hours=23)) == [new_secret, old_secret]
    assert secrets_of(stored(ledger, webhook), NOW + timedelta(hours=24)) == [new_secret]


def test_a_webhook_is_removed_with_its_deliveries(ledger: InMemoryLedger, webhook: Webhook) -> None:
    other = wait_for(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS)).webhook
    ledger.write([Announce("a", "workflow.failed", {}, NOW)])
    wait_for(remove_webhook(ledger, "a", webhook.id))
    assert [delivery.webhook_id for delivery in ledger.find(Delivery)] == [other.id]
    with pytest.raises(NotFound):
        wait_for(remove_webhook(ledger, "a", webhook.id))


def test_only_the_deliveries_of_the_webhook_are_listed(ledger: InMemoryLedger, webhook: Webhook) -> None:
    wait_for(add_webhook(ledger, "a", URL, ["workflow.completed"], now=NOW, settings=SETTINGS))
    for number in range(3):
        ledger.write([Announce("a", "workflow.failed", {}, NOW + timedelta(seconds=number))])
        ledger.write([Announce("a", "workflow.completed", {}, NOW)])
    result, total = wait_for(deliveries_of(ledger, "a", webhook.id, limit=2))
    assert [item.created_at for item in result] == [NOW + timedelta(seconds=2), NOW + timedelta(seconds=1)]
    assert total == 3


def test_a_test_message_is_sent_to_one_webhook(ledger: InMemoryLedger, webhook: Webhook) -> None:
    wait_for(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    created = wait_for(send_test(ledger, "a", webhook.id, now=NOW))
    assert ledger.find(Delivery) == [created]
    assert created.body == {
        "type": "webhook.test", "createdAt": "2026-01-01T00:00:00Z",
        "data": {"webhookId": webhook.id},
    }  # fmt: skip
    assert (created.webhook_id, created.event_type, created.status, created.due_at) == (
        webhook.id,
        "webhook.test",
        "pending",
        NOW,
    )


def test_an_inactive_webhook_is_not_tested(ledger: InMemoryLedger, webhook: Webhook) -> None:
    wait_for(change_webhook(ledger, "a", webhook.id, active=False, now=NOW))
    with pytest.raises(RequestConflict, match="Activate it first"):
        wait_for(send_test(ledger, "a", webhook.id, now=NOW))
