"""What stands in a workspace: webhooks, schedules, triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from statewright.client.call import Call, delete, get, in_camel, nothing, patch, place, post
from statewright.client.flow.effects import Flow
from statewright.client.flow.pages import LARGEST, Page, all_of, page_of
from statewright.client.records.standing import Delivery, Schedule, Trigger, Webhook, WebhookWithSecret
from statewright.client.resources.options import ScheduleChanges, ScheduleOptions, TriggerChanges, WebhookChanges
from statewright.client.sync_async import F, Namespace, items, request


class Webhooks(Namespace[F]):
    """Addresses outside that are told of what happens to runs."""

    @request
    def add(self, url: str, *, events: Sequence[str] = (), description: str = "") -> Call[WebhookWithSecret]:
        """A new webhook, with the secret that its messages are signed with; it is not shown again."""
        body = {"url": url, "events": list(events), "description": description}
        return post(place("webhooks"), WebhookWithSecret.read_answer, body)

    @request
    def get(self, webhook_id: str) -> Call[Webhook]:
        """A webhook."""
        return get(place("webhooks", webhook_id), Webhook.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Webhook]]:
        """A page of the webhooks, the newest first."""
        return page_of(place("webhooks"), Webhook.from_json, page=page, page_size=page_size)

    @items(Webhook)
    def iterate(self) -> Flow[None]:
        """All webhooks, the newest first."""
        return all_of(page_of(place("webhooks"), Webhook.from_json, page=1, page_size=LARGEST), self._settings)

    @request
    def change(self, webhook_id: str, **changes: Unpack[WebhookChanges]) -> Call[WebhookWithSecret]:
        """The webhook with other values; with a new secret if one is asked for."""
        return patch(place("webhooks", webhook_id), WebhookWithSecret.read_answer, in_camel(changes))

    @request
    def remove(self, webhook_id: str) -> Call[None]:
        """Nothing: the webhook is not there any more."""
        return delete(place("webhooks", webhook_id), nothing)

    @request
    def deliveries(self, webhook_id: str, *, page: int = 1, page_size: int = 20) -> Call[Page[Delivery]]:
        """A page of the messages to a webhook, the newest first."""
        path = place("webhooks", webhook_id, "deliveries")
        return page_of(path, Delivery.from_json, page=page, page_size=page_size)

    @request
    def test(self, webhook_id: str) -> Call[Delivery]:
        """A message that is sent to try the webhook."""
        return post(place("webhooks", webhook_id, "test"), Delivery.read_answer)


class Schedules(Namespace[F]):
    """Runs that the clock starts."""

    @request
    def add(self, name: str, cron: str, **options: Unpack[ScheduleOptions]) -> Call[Schedule]:
        """A new schedule for a graph or a definition."""
        return post(place("schedules"), Schedule.read_answer, in_camel({"name": name, "cron": cron, **options}))

    @request
    def get(self, schedule_id: str) -> Call[Schedule]:
        """A schedule."""
        return get(place("schedules", schedule_id), Schedule.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Schedule]]:
        """A page of the schedules, by their names."""
        return page_of(place("schedules"), Schedule.from_json, page=page, page_size=page_size)

    @items(Schedule)
    def iterate(self) -> Flow[None]:
        """All schedules, by their names."""
        return all_of(page_of(place("schedules"), Schedule.from_json, page=1, page_size=LARGEST), self._settings)

    @request
    def change(self, schedule_id: str, **changes: Unpack[ScheduleChanges]) -> Call[Schedule]:
        """The schedule with other values."""
        return patch(place("schedules", schedule_id), Schedule.read_answer, in_camel(changes))

    @request
    def pause(self, schedule_id: str) -> Call[Schedule]:
        """The schedule, which starts nothing until it is resumed."""
        return post(place("schedules", schedule_id, "pause"), Schedule.read_answer)

    @request
    def resume(self, schedule_id: str) -> Call[Schedule]:
        """The schedule, which goes on with its next time after now."""
        return post(place("schedules", schedule_id, "resume"), Schedule.read_answer)

    @request
    def preview(self, schedule_id: str, *, count: int = 10) -> Call[Sequence[datetime]]:
        """When the schedule starts its next runs."""
        return get(place("schedules", schedule_id, "preview"), _times, {"count": count})

    @request
    def remove(self, schedule_id: str) -> Call[None]:
        """Nothing: the schedule is not there any more."""
        return delete(place("schedules", schedule_id), nothing)


def _times(answer: Any) -> Sequence[datetime]:
    return [datetime.fromisoformat(one) for one in answer["data"]["times"]]


class Triggers(Namespace[F]):
    """Runs that events start."""

    @request
    def add(
        self,
        event: str,
        *,
        graph: str | None = None,
        definition_id: str | None = None,
        match: Mapping[str, Any] | None = None,
    ) -> Call[Trigger]:
        """A new trigger; `match` is what the payload of an event must hold, by dotted paths."""
        body = {"event": event, "graph": graph, "definition_id": definition_id, "match": match}
        given = {name: value for name, value in body.items() if value is not None}
        return post(place("triggers"), Trigger.read_answer, in_camel(given))

    @request
    def get(self, trigger_id: str) -> Call[Trigger]:
        """A trigger."""
        return get(place("triggers", trigger_id), Trigger.read_answer)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Trigger]]:
        """A page of the triggers, the oldest first."""
        return page_of(place("triggers"), Trigger.from_json, page=page, page_size=page_size)

    @items(Trigger)
    def iterate(self) -> Flow[None]:
        """All triggers, the oldest first."""
        return all_of(page_of(place("triggers"), Trigger.from_json, page=1, page_size=LARGEST), self._settings)

    @request
    def change(self, trigger_id: str, **changes: Unpack[TriggerChanges]) -> Call[Trigger]:
        """The trigger with other values."""
        return patch(place("triggers", trigger_id), Trigger.read_answer, in_camel(changes))

    @request
    def remove(self, trigger_id: str) -> Call[None]:
        """Nothing: the trigger is not there any more."""
        return delete(place("triggers", trigger_id), nothing)
