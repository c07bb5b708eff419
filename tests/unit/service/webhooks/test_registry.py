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


def now(awaitable: Awaitable[T]) -> T:
    async def run() -> T:
        return await awaitable

    return asyncio.run(run())


@pytest.fixture
def ledger() -> InMemoryLedger:
    return InMemoryLedger()


@pytest.fixture
def webhook(ledger: InMemoryLedger) -> Webhook:
    return now(add_webhook(ledger, "a", URL, ["workflow.failed"], "mine", now=NOW, settings=SETTINGS)).webhook


def kept(ledger: InMemoryLedger, webhook: Webhook) -> Webhook:
    result = ledger.get(Webhook, webhook.id)
    assert result is not None
    return result


def test_a_secret_is_shown_once(ledger: InMemoryLedger) -> None:
    made = now(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert secrets_of(kept(ledger, made.webhook), NOW) == [made.secret]
    shown = [
        made.webhook,
        *now(list_webhooks(ledger, "a"))[0],
        now(get_webhook(ledger, "a", made.webhook.id)),
        now(change_webhook(ledger, "a", made.webhook.id, description="x", now=NOW)).webhook,
    ]
    assert [made.secret in repr(item) for item in shown] == [False] * 4


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
    before = kept(ledger, webhook)
    with pytest.raises(InvalidRequest):
        now(add_webhook(ledger, "a", url, events, description, now=NOW, settings=SETTINGS))
    changed = change_webhook(
        ledger, "a", webhook.id, url=url, events=events, description=description, now=NOW, settings=SETTINGS
    )
    with pytest.raises(InvalidRequest):
        now(changed)
    assert ledger.find(Webhook) == [before]


def test_the_number_of_webhooks_is_limited_for_each_workspace(ledger: InMemoryLedger) -> None:
    for _ in range(3):
        now(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    with pytest.raises(RequestConflict, match="has 3 webhooks already"):
        now(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    now(add_webhook(ledger, "b", URL, now=NOW, settings=SETTINGS))


def test_lists_are_the_newest_first_and_paged(ledger: InMemoryLedger) -> None:
    made = [
        now(add_webhook(ledger, "a", URL, now=NOW + timedelta(seconds=number), settings=SETTINGS)).webhook
        for number in range(3)
    ]
    result, total = now(list_webhooks(ledger, "a", limit=2, offset=1))
    assert ([item.id for item in result], total) == ([made[1].id, made[0].id], 3)
    assert now(list_webhooks(ledger, "b")) == ([], 0)


@pytest.mark.parametrize("workspace", ["b", ""])
def test_other_workspaces_find_nothing(ledger: InMemoryLedger, webhook: Webhook, workspace: str) -> None:
    for call in (
        get_webhook(ledger, workspace, webhook.id),
        change_webhook(ledger, workspace, webhook.id, active=False, rotate_secret=True, now=NOW),
        remove_webhook(ledger, workspace, webhook.id),
        deliveries_of(ledger, workspace, webhook.id),
        send_test(ledger, workspace, webhook.id, now=NOW),
        get_webhook(ledger, "a", "whk_unknown"),
    ):
        with pytest.raises(NotFound, match=r"Webhook 'whk_[^']*' does not exist"):
            now(call)
    assert kept(ledger, webhook).active
    assert ledger.count(Delivery) == 0


def test_fields_that_are_not_given_stay(ledger: InMemoryLedger, webhook: Webhook) -> None:
    before = kept(ledger, webhook)
    assert now(change_webhook(ledger, "a", webhook.id, now=NOW)).secret is None
    assert kept(ledger, webhook) == before
    now(change_webhook(ledger, "a", webhook.id, events=[], description="", now=NOW))
    after = kept(ledger, webhook)
    assert (after.events, after.description, after.url, after.active) == ([], "", URL, True)


def test_reactivating_a_webhook_resets_its_failures(ledger: InMemoryLedger, webhook: Webhook) -> None:
    ledger.write([Update(Webhook, webhook.id, {"active": False, "failures": 10, "disabled_reason": "410"})])
    again = now(change_webhook(ledger, "a", webhook.id, active=True, now=NOW)).webhook
    assert (again.active, again.failures, again.disabled_reason) == (True, 0, None)
    assert not now(change_webhook(ledger, "a", webhook.id, active=False, now=NOW)).webhook.active


def test_a_rotated_secret_is_returned_and_the_previous_one_is_valid_for_a_day(
    ledger: InMemoryLedger, webhook: Webhook
) -> None:
    (former,) = secrets_of(kept(ledger, webhook), NOW)
    drawn = now(change_webhook(ledger, "a", webhook.id, rotate_secret=True, now=NOW)).secret
    assert secrets_of(kept(ledger, webhook), NOW + timedelta(hours=23)) == [drawn, former]
    assert secrets_of(kept(ledger, webhook), NOW + timedelta(hours=24)) == [drawn]


def test_a_webhook_is_removed_with_its_deliveries(ledger: InMemoryLedger, webhook: Webhook) -> None:
    other = now(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS)).webhook
    ledger.write([Announce("a", "workflow.failed", {}, NOW)])
    now(remove_webhook(ledger, "a", webhook.id))
    assert [delivery.webhook_id for delivery in ledger.find(Delivery)] == [other.id]
    with pytest.raises(NotFound):
        now(remove_webhook(ledger, "a", webhook.id))


def test_deliveries_are_those_of_the_webhook(ledger: InMemoryLedger, webhook: Webhook) -> None:
    now(add_webhook(ledger, "a", URL, ["workflow.completed"], now=NOW, settings=SETTINGS))
    for number in range(3):
        ledger.write([Announce("a", "workflow.failed", {}, NOW + timedelta(seconds=number))])
        ledger.write([Announce("a", "workflow.completed", {}, NOW)])
    result, total = now(deliveries_of(ledger, "a", webhook.id, limit=2))
    assert [item.created_at for item in result] == [NOW + timedelta(seconds=2), NOW + timedelta(seconds=1)]
    assert total == 3


def test_a_test_message_is_sent_to_one_webhook(ledger: InMemoryLedger, webhook: Webhook) -> None:
    now(add_webhook(ledger, "a", URL, now=NOW, settings=SETTINGS))
    made = now(send_test(ledger, "a", webhook.id, now=NOW))
    assert ledger.find(Delivery) == [made]
    assert made.id.startswith("dlv_")
    assert made.body == {
        "type": "webhook.test", "createdAt": "2026-01-01T00:00:00Z", "data": {"webhookId": webhook.id},
    }  # fmt: skip
    assert (made.webhook_id, made.event_type, made.status, made.due_at) == (webhook.id, "webhook.test", "pending", NOW)


def test_an_inactive_webhook_is_not_tested(ledger: InMemoryLedger, webhook: Webhook) -> None:
    now(change_webhook(ledger, "a", webhook.id, active=False, now=NOW))
    with pytest.raises(RequestConflict, match="Activate it first"):
        now(send_test(ledger, "a", webhook.id, now=NOW))
