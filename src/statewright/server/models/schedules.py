"""What starts runs without anybody asking: schedules and triggers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from statewright.server.models.base import Body, JsonMap, Name, Shown, Tag

Overlap = Literal["skip", "enqueue", "allow", "cancel"]
CatchUp = Literal["none", "last", "all"]
Cron = Annotated[str, Field(min_length=1, max_length=200, examples=["0 9 * * MON-FRI"])]
Zone = Annotated[str, Field(min_length=1, max_length=100, examples=["Europe/Berlin"])]


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
    def _one_subject(self) -> ScheduleBody:
        if (self.definition_id is None) == (self.graph is None):
            raise ValueError("give either definitionId or graph: what is to be run")
        return self


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


class ScheduleShown(Shown):
    """Return a schedule."""

    id: str
    name: str
    graph: str
    definition_id: str | None
    cron: str
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    paused: bool
    next_at: datetime | None
    last_at: datetime | None
    last_run_id: str | None
    tags: list[str]
    metadata: JsonMap
    created_at: datetime
    version: int


class Preview(Shown):
    """When a schedule starts its next runs."""

    times: list[datetime]


class TriggerBody(Body):
    """A trigger to be made."""

    event: Name
    graph: Name | None = None
    definition_id: Name | None = None
    match: JsonMap = Field(default_factory=dict, max_length=20)
    """Required values of the payload by dotted path; empty matches everything."""

    @model_validator(mode="after")
    def _one_subject(self) -> TriggerBody:
        if (self.definition_id is None) == (self.graph is None):
            raise ValueError("give either definitionId or graph: what is to be run")
        return self


class TriggerChanges(Body):
    """Changes of a trigger."""

    match: JsonMap | None = Field(default=None, max_length=20)
    active: bool | None = None


class TriggerShown(Shown):
    """Return a trigger."""

    id: str
    event: str
    graph: str
    definition_id: str | None
    match: JsonMap
    active: bool
    created_at: datetime
