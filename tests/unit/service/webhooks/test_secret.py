"""Secrets of webhooks, and their rotation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from statewright.runs import Webhook
from statewright.service.webhooks.settings import WebhookSettings
from statewright.service.webhooks.signature import rotated_secret, secrets_of, without_secret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = WebhookSettings(rotation=3600)
WEBHOOK = Webhook(id="w", workspace_id="a", url="https://a.example", secret={"current": "whsec_1"}, created_at=NOW)


def test_a_secret_may_be_a_string() -> None:
    assert secrets_of(replace(WEBHOOK, secret="whsec_0"), NOW) == ["whsec_0"]


def test_the_previous_secret_is_valid_for_a_while() -> None:
    stored, new_secret = rotated_secret(WEBHOOK, NOW, SETTINGS)
    after = replace(WEBHOOK, secret=stored)
    assert secrets_of(after, NOW + timedelta(seconds=3599)) == [new_secret, "whsec_1"]
    assert secrets_of(after, NOW + timedelta(seconds=3600)) == [new_secret]


def test_after_two_rotations_the_last_two_secrets_are_valid() -> None:
    once, first = rotated_secret(WEBHOOK, NOW, SETTINGS)
    twice, second = rotated_secret(replace(WEBHOOK, secret=once), NOW, SETTINGS)
    assert secrets_of(replace(WEBHOOK, secret=twice), NOW) == [second, first]


def test_returned_records_have_no_secret() -> None:
    returned = without_secret(WEBHOOK)
    assert returned.secret is None
    assert WEBHOOK.secret is not None
