"""Webhooks: signed messages about runs, sent to external URLs."""

from statewright.service.webhooks.delivery import Deliverer
from statewright.service.webhooks.http_post import Answer, HttpPost, Post
from statewright.service.webhooks.registry import (
    EVENT_TYPES,
    TEST_EVENT,
    WithSecret,
    add_webhook,
    change_webhook,
    deliveries_of,
    get_webhook,
    list_webhooks,
    remove_webhook,
    send_again,
    send_test,
)
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, Resolve, WebhookSettings
from statewright.service.webhooks.signature import SIGNATURE_HEADER, draw_secret, sign, verify

__all__ = [
    "DEFAULT_SETTINGS",
    "EVENT_TYPES",
    "SIGNATURE_HEADER",
    "TEST_EVENT",
    "Answer",
    "Deliverer",
    "HttpPost",
    "Post",
    "Resolve",
    "WebhookSettings",
    "WithSecret",
    "add_webhook",
    "change_webhook",
    "deliveries_of",
    "draw_secret",
    "get_webhook",
    "list_webhooks",
    "remove_webhook",
    "send_again",
    "send_test",
    "sign",
    "verify",
]
