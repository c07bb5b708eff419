"""Schedules and triggers, which start runs, and webhooks, which receive messages about runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from statewright.api.automation import (
    CatchUp,
    Delivery,
    Overlap,
    Preview,
    Schedule,
    Trigger,
    Webhook,
    WebhookWithSecret,
)
from statewright.client.call import (
    Call,
    api_path,
    delete,
    get,
    ignore_content,
    patch,
    post,
    to_camel_case,
)
from statewright.client.send import Page, get_page
from statewright.client.sync_async import F, IteratingMethod, Namespace, request
from statewright.data.mappings import without_none


class _ScheduleFields(TypedDict, total=False):
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class ScheduleOptions(_ScheduleFields, total=False):
    """Options of a new schedule. Either `graph` or `definition_id` is required."""

    graph: str | None
    definition_id: str | None
    paused: bool


class ScheduleChanges(_ScheduleFields, total=False):
    """Changes to a schedule."""

    name: str
    cron: str


class TriggerChanges(TypedDict, total=False):
    """Changes to a trigger."""

    match: Mapping[str, Any]
    active: bool


class WebhookChanges(TypedDict, total=False):
    """Changes to a webhook."""

    url: str
    events: Sequence[str]
    description: str
    active: bool
    rotate_secret: bool
    """True to generate a new signing secret, which the result contains."""


class Schedules(Namespace[F]):
    """Schedules, which start runs at the times of a cron expression."""

    @request
    def add(self, name: str, cron: str, **options: Unpack[ScheduleOptions]) -> Call[Schedule]:
        """Create a schedule for a graph or a definition."""
        return post(
            api_path("schedules"), Schedule.from_response, to_camel_case({"name": name, "cron": cron, **options})
        )

    @request
    def get(self, schedule_id: str) -> Call[Schedule]:
        """Return a schedule."""
        return get(api_path("schedules", schedule_id), Schedule.from_response)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Schedule]]:
        """Return a page of the schedules, sorted by name."""
        return get_page(api_path("schedules"), Schedule.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Schedule]:
        """Iterate over all schedules, sorted by name."""
        return self._iter_all(api_path("schedules"), Schedule.from_json)

    @request
    def change(self, schedule_id: str, **changes: Unpack[ScheduleChanges]) -> Call[Schedule]:
        """Change a schedule."""
        return patch(api_path("schedules", schedule_id), Schedule.from_response, to_camel_case(changes))

    @request
    def pause(self, schedule_id: str) -> Call[Schedule]:
        """Pause a schedule, so that it does not start runs until it is resumed."""
        return post(api_path("schedules", schedule_id, "pause"), Schedule.from_response)

    @request
    def resume(self, schedule_id: str) -> Call[Schedule]:
        """Resume a schedule. Times that have passed while it was paused are skipped."""
        return post(api_path("schedules", schedule_id, "resume"), Schedule.from_response)

    @request
    def preview(self, schedule_id: str, *, count: int = 10) -> Call[Sequence[datetime]]:
        """Return the times at which a schedule will start its next runs."""
        return get(api_path("schedules", schedule_id, "preview"), _read_times, {"count": count})

    @request
    def preview_cron(self, cron: str, *, timezone: str = "UTC", count: int = 10) -> Call[Sequence[datetime]]:
        """Return the next times of a cron expression, without a schedule. Raises InvalidRequest."""
        body = {"cron": cron, "timezone": timezone, "count": count}
        return post(api_path("schedules", "preview"), _read_times, body, repeatable=True)

    @request
    def remove(self, schedule_id: str) -> Call[None]:
        """Remove a schedule."""
        return delete(api_path("schedules", schedule_id), ignore_content)


def _read_times(answer: Any) -> Sequence[datetime]:
    return list(Preview.from_response(answer).times)


class Triggers(Namespace[F]):
    """Triggers, which start runs when an event is received."""

    @request
    def add(
        self,
        event: str,
        *,
        graph: str | None = None,
        definition_id: str | None = None,
        match: Mapping[str, Any] | None = None,
    ) -> Call[Trigger]:
        """Create a trigger. `match` has the values that the payload of an event must have, by dotted path."""
        body = {"event": event, "graph": graph, "definition_id": definition_id, "match": match}
        return post(api_path("triggers"), Trigger.from_response, to_camel_case(without_none(body)))

    @request
    def get(self, trigger_id: str) -> Call[Trigger]:
        """Return a trigger."""
        return get(api_path("triggers", trigger_id), Trigger.from_response)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Trigger]]:
        """Return a page of the triggers, the oldest first."""
        return get_page(api_path("triggers"), Trigger.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Trigger]:
        """Iterate over all triggers, the oldest first."""
        return self._iter_all(api_path("triggers"), Trigger.from_json)

    @request
    def change(self, trigger_id: str, **changes: Unpack[TriggerChanges]) -> Call[Trigger]:
        """Change a trigger."""
        return patch(api_path("triggers", trigger_id), Trigger.from_response, to_camel_case(changes))

    @request
    def remove(self, trigger_id: str) -> Call[None]:
        """Remove a trigger."""
        return delete(api_path("triggers", trigger_id), ignore_content)


class Webhooks(Namespace[F]):
    """Webhooks, which are URLs that receive messages about runs."""

    @request
    def add(self, url: str, *, events: Sequence[str] = (), description: str = "") -> Call[WebhookWithSecret]:
        """Create a webhook. The result contains the signing secret, which is not shown again."""
        body = {"url": url, "events": list(events), "description": description}
        return post(api_path("webhooks"), WebhookWithSecret.from_response, body)

    @request
    def get(self, webhook_id: str) -> Call[Webhook]:
        """Return a webhook."""
        return get(api_path("webhooks", webhook_id), Webhook.from_response)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Webhook]]:
        """Return a page of the webhooks, the newest first."""
        return get_page(api_path("webhooks"), Webhook.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Webhook]:
        """Iterate over all webhooks, the newest first."""
        return self._iter_all(api_path("webhooks"), Webhook.from_json)

    @request
    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Call[WebhookWithSecret]:
        """Change a webhook. `rotate_secret=True` generates a new secret, which the result contains."""
        return patch(api_path("webhooks", webhook_id), WebhookWithSecret.from_response, to_camel_case(changes))

    @request
    def remove(self, webhook_id: str) -> Call[None]:
        """Remove a webhook."""
        return delete(api_path("webhooks", webhook_id), ignore_content)

    @request
    def deliveries(self, webhook_id: str, *, page: int = 1, page_size: int = 20) -> Call[Page[Delivery]]:
        """Return a page of the deliveries of a webhook, the newest first."""
        path = api_path("webhooks", webhook_id, "deliveries")
        return get_page(path, Delivery.from_json, page=page, page_size=page_size)

    @request
    def send_again(self, webhook_id: str, delivery_id: str) -> Call[Delivery]:
        """Send the message of a delivery again, as a new delivery."""
        path = api_path("webhooks", webhook_id, "deliveries", delivery_id, "send-again")
        return post(path, Delivery.from_response)

    @request
    def test(self, webhook_id: str) -> Call[Delivery]:
        """Send a test message to a webhook."""
        return post(api_path("webhooks", webhook_id, "test"), Delivery.from_response)
