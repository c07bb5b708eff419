"""Webhooks of a workspace, and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from statewright.api.automation import Delivery, Webhook, WebhookWithSecret
from statewright.client.call import Call, delete, get, in_camel, nothing, patch, path_of, post
from statewright.client.flow.effects import Flow
from statewright.client.flow.pages import Page, page_of
from statewright.client.resources.options import WebhookChanges
from statewright.client.sync_async import F, Namespace, items, request


class Webhooks(Namespace[F]):
    """Webhooks: external URLs that receive events of runs."""

    @request
    def add(self, url: str, *, events: Sequence[str] = (), description: str = "") -> Call[WebhookWithSecret]:
        """Create a webhook. The result has the signing secret, which is not shown again."""
        body = {"url": url, "events": list(events), "description": description}
        return post(path_of("webhooks"), WebhookWithSecret.read_answer, body)

    @request
    def get(self, webhook_id: str) -> Call[Webhook]:
        """Return a webhook."""
        return get(path_of("webhooks", webhook_id), Webhook.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Webhook]]:
        """Return a page of the webhooks, the newest first."""
        return page_of(path_of("webhooks"), Webhook.from_json, page=page, page_size=page_size)

    @items(Webhook)
    def iterate(self) -> Flow[None]:
        """Iterate over all webhooks, the newest first."""
        return self._all(path_of("webhooks"), Webhook.from_json)

    @request
    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Call[WebhookWithSecret]:
        """Change a webhook; `rotate_secret=True` creates a new secret."""
        return patch(path_of("webhooks", webhook_id), WebhookWithSecret.read_answer, in_camel(changes))

    @request
    def remove(self, webhook_id: str) -> Call[None]:
        """Remove a webhook."""
        return delete(path_of("webhooks", webhook_id), nothing)

    @request
    def deliveries(self, webhook_id: str, *, page: int = 1, page_size: int = 20) -> Call[Page[Delivery]]:
        """Return a page of the deliveries of a webhook, the newest first."""
        path = path_of("webhooks", webhook_id, "deliveries")
        return page_of(path, Delivery.from_json, page=page, page_size=page_size)

    @request
    def test(self, webhook_id: str) -> Call[Delivery]:
        """Send a test message to a webhook."""
        return post(path_of("webhooks", webhook_id, "test"), Delivery.read_answer)
