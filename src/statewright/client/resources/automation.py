"""Schedules and triggers, which start runs, and webhooks, which receive their events."""

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
from statewright.client.call import Call, delete, get, ignore_content, in_camel, patch, path_of, post, without_none
from statewright.client.send import Page, page_of
from statewright.client.sync_async import F, IteratingMethod, Namespace, request


class _ScheduleFields(TypedDict, total=False):
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class ScheduleOptions(_ScheduleFields, total=False):
    """Options of a schedule."""

    graph: str | None
    definition_id: str | None
    paused: bool


class ScheduleChanges(_ScheduleFields, total=False):
    """Changes of a schedule."""

    name: str
    cron: str


class TriggerChanges(TypedDict, total=False):
    """Changes of a trigger."""

    match: Mapping[str, Any]
    active: bool


class WebhookChanges(TypedDict, total=False):
    """Changes of a webhook."""

    url: str
    events: Sequence[str]
    description: str
    active: bool
    rotate_secret: bool
    """Creates a new secret, which is in the result."""


class Schedules(Namespace[F]):
    """Runs started by the clock."""

    @request
    def add(self, name: str, cron: str, **options: Unpack[ScheduleOptions]) -> Call[Schedule]:
        """Create a schedule for a graph or a definition."""
        return post(path_of("schedules"), Schedule.read_answer, in_camel({"name": name, "cron": cron, **options}))

    @request
    def get(self, schedule_id: str) -> Call[Schedule]:
        """Return a schedule."""
        return get(path_of("schedules", schedule_id), Schedule.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Schedule]]:
        """Return a page of the schedules, sorted by name."""
        return page_of(path_of("schedules"), Schedule.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Schedule]:
        """Iterate over all schedules, sorted by name."""
        return self._all(path_of("schedules"), Schedule.from_json)

    @request
    def change(self, schedule_id: str, **changes: Unpack[ScheduleChanges]) -> Call[Schedule]:
        """Change a schedule."""
        return patch(path_of("schedules", schedule_id), Schedule.read_answer, in_camel(changes))

    @request
    def pause(self, schedule_id: str) -> Call[Schedule]:
        """Pause a schedule: it starts no runs until it is resumed."""
        return post(path_of("schedules", schedule_id, "pause"), Schedule.read_answer)

    @request
    def resume(self, schedule_id: str) -> Call[Schedule]:
        """Resume a schedule at its next time after now."""
        return post(path_of("schedules", schedule_id, "resume"), Schedule.read_answer)

    @request
    def preview(self, schedule_id: str, *, count: int = 10) -> Call[Sequence[datetime]]:
        """Return the times at which the schedule starts its next runs."""
        return get(path_of("schedules", schedule_id, "preview"), _times, {"count": count})

    @request
    def remove(self, schedule_id: str) -> Call[None]:
        """Remove a schedule."""
        return delete(path_of("schedules", schedule_id), ignore_content)


def _times(answer: Any) -> Sequence[datetime]:
    return list(Preview.read_answer(answer).times)


class Triggers(Namespace[F]):
    """Runs started by events."""

    @request
    def add(
        self,
        event: str,
        *,
        graph: str | None = None,
        definition_id: str | None = None,
        match: Mapping[str, Any] | None = None,
    ) -> Call[Trigger]:
        """Create a trigger; `match` gives required values of the payload by dotted path."""
        body = {"event": event, "graph": graph, "definition_id": definition_id, "match": match}
        return post(path_of("triggers"), Trigger.read_answer, in_camel(without_none(body)))

    @request
    def get(self, trigger_id: str) -> Call[Trigger]:
        """Return a trigger."""
        return get(path_of("triggers", trigger_id), Trigger.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Trigger]]:
        """Return a page of the triggers, the oldest first."""
        return page_of(path_of("triggers"), Trigger.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Trigger]:
        """Iterate over all triggers, the oldest first."""
        return self._all(path_of("triggers"), Trigger.from_json)

    @request
    def change(self, trigger_id: str, **changes: Unpack[TriggerChanges]) -> Call[Trigger]:
        """Change a trigger."""
        return patch(path_of("triggers", trigger_id), Trigger.read_answer, in_camel(changes))

    @request
    def remove(self, trigger_id: str) -> Call[None]:
        """Remove a trigger."""
        return delete(path_of("triggers", trigger_id), ignore_content)


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

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Webhook]:
        """Iterate over all webhooks, the newest first."""
        return self._all(path_of("webhooks"), Webhook.from_json)

    @request
    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Call[WebhookWithSecret]:
        """Change a webhook; `rotate_secret=True` creates a new secret."""
        return patch(path_of("webhooks", webhook_id), WebhookWithSecret.read_answer, in_camel(changes))

    @request
    def remove(self, webhook_id: str) -> Call[None]:
        """Remove a webhook."""
        return delete(path_of("webhooks", webhook_id), ignore_content)

    @request
    def deliveries(self, webhook_id: str, *, page: int = 1, page_size: int = 20) -> Call[Page[Delivery]]:
        """Return a page of the deliveries of a webhook, the newest first."""
        path = path_of("webhooks", webhook_id, "deliveries")
        return page_of(path, Delivery.from_json, page=page, page_size=page_size)

    @request
    def test(self, webhook_id: str) -> Call[Delivery]:
        """Send a test message to a webhook."""
        return post(path_of("webhooks", webhook_id, "test"), Delivery.read_answer)
