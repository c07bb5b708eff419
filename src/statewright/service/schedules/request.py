"""What is asked for: a schedule, before it has an id and a next time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.errors import InvalidRequest
from statewright.runs import Json
from statewright.service.form import choice, flag, mapping, text, texts
from statewright.service.schedules.cron import read_cron, zone_of

OVERLAPS: Final = ("skip", "enqueue", "allow", "cancel")
CATCH_UPS: Final = ("none", "last", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to be made. Either `graph` or `definition_id` is given."""

    name: str
    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    graph: str | None = None
    definition_id: str | None = None
    timezone: str = "UTC"
    input: Json = None
    overlap: str = "skip"
    """If its last run has not ended: `skip` this one, `enqueue` it behind, `allow` both, `cancel` the other."""
    catch_up: str = "last"
    """Of the times that went by while nobody served: `none`, the `last` one, or `all` (the 100 last)."""
    paused: bool = False
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def check_schedule(new: NewSchedule) -> None:
    """Refuse what no schedule can be, but for what it runs. Raises InvalidRequest."""
    text(new.name, "The name of a schedule")
    read_cron(new.cron)
    zone_of(new.timezone)
    choice(new.overlap, "The overlap of a schedule", OVERLAPS)
    choice(new.catch_up, "The catch-up of a schedule", CATCH_UPS)
    flag(new.paused, "Whether a schedule is paused")
    texts(new.tags, "The tags of a schedule")
    if "scheduledFor" in mapping(new.metadata, "The metadata of a schedule"):
        raise InvalidRequest(
            "The metadata of a schedule cannot hold 'scheduledFor': its runs say there for which time they are. "
            "Choose another key."
        )
