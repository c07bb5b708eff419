"""Bodies about schedules, triggers and webhooks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from statewright.api.automation import CatchUp, Overlap
from statewright.server.bodies.base import Body, JsonMap, Name, Tag, check_workflow

Cron = Annotated[str, Field(min_length=1, max_length=200, examples=["0 9 * * MON-FRI"])]
Zone = Annotated[str, Field(min_length=1, max_length=100, examples=["Europe/Berlin"])]
Address = Annotated[str, Field(min_length=1, max_length=2048)]
EventName = Annotated[str, Field(min_length=1, max_length=100)]


class ScheduleBody(Body):
    """A schedule to be made."""

    name: Name
    graph: Name | None = None
    definition_id: Name | None = None
    cron: Cron
    timezone: Zone = "UTC"
    input: Any = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    paused: bool = False
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    metadata: JsonMap = Field(default_factory=dict, max_length=50)

    @model_validator(mode="after")
    def _check_workflow(self) -> ScheduleBody:
        return check_workflow(self)


class ScheduleChanges(Body):
    """Changes of a schedule."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    input: Any = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    tags: list[Tag] | None = Field(default=None, max_length=50)
    metadata: JsonMap | None = Field(default=None, max_length=50)


class TriggerBody(Body):
    """A trigger to be made."""

    event: Name
    graph: Name | None = None
    definition_id: Name | None = None
    match: JsonMap = Field(default_factory=dict, max_length=20)
    """Required values of the payload by dotted path; empty matches everything."""

    @model_validator(mode="after")
    def _check_workflow(self) -> TriggerBody:
        return check_workflow(self)


class TriggerChanges(Body):
    """Changes of a trigger."""

    match: JsonMap | None = Field(default=None, max_length=20)
    active: bool | None = None


class WebhookBody(Body):
    """A webhook to be made."""

    url: Address
    events: list[EventName] = Field(default_factory=list[str], max_length=20)
    """The types that it wants; all if there are none."""
    description: Annotated[str, Field(max_length=1000)] = ""


class WebhookChanges(Body):
    """Changes of a webhook."""

    url: Address | None = None
    events: list[EventName] | None = Field(default=None, max_length=20)
    description: Annotated[str, Field(max_length=1000)] | None = None
    active: bool | None = None
    """Made active again, it begins without failures."""
    rotate_secret: bool = False
    """Draws a new secret, which is in the answer."""
