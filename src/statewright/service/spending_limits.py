"""What all runs of a workspace may spend together on one day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from math import isfinite
from typing import Any, Final, cast

from statewright.errors import InvalidConfig, SpendingLimitReached
from statewright.runs import DailySpending

EVERY_OTHER: Final = "*"
"""In place of the name of a workspace: all that are not named."""
_SPENT: Final = {"tokens_per_day": "tokens", "cost_per_day": "cost", "requests_per_day": "requests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits:
    """The most that the calls of models by all runs of a workspace may use up on one day, which is a day in UTC."""

    tokens_per_day: int | None = None
    """Of input and of output."""
    cost_per_day: float | None = None
    """In US dollars. Calls of models whose price is unknown cost nothing here: limit tokens too."""
    requests_per_day: int | None = None

    def __post_init__(self) -> None:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        if all(most is None for most in given.values()):
            raise InvalidConfig(f"SpendingLimits() limits nothing. Give {', '.join(given)}, or some of them.")
        for name, most in given.items():
            kinds = (int, float) if name == "cost_per_day" else (int,)
            is_number = isinstance(most, kinds) and not isinstance(most, bool)
            if most is not None and not (is_number and isfinite(most) and most > 0):
                kind = "number" if name == "cost_per_day" else "whole number"
                raise InvalidConfig(f"SpendingLimits({name}={most!r}): give a {kind} above 0, or leave it out.")

    def reached(self, spent: DailySpending, now: datetime) -> SpendingLimitReached | None:
        """What says which limit leaves no room for another call on a day; None if there is room."""
        for name, column in _SPENT.items():
            most, used = getattr(self, name), getattr(spent, column)
            if most is not None and used >= most:
                return SpendingLimitReached(
                    spent.workspace_id, name, used=used, most=most, ends_at=spent.ends_at, now=now
                )
        return None


Limits = SpendingLimits | Mapping[str, SpendingLimits]
"""One for each workspace, or by their names (slugs or ids) with `*` for all others."""


def by_name(given: Limits | None) -> dict[str, SpendingLimits]:
    """Limits by the names of workspaces. Raises InvalidConfig."""
    if given is None:
        return {}
    if isinstance(given, SpendingLimits):
        return {EVERY_OTHER: given}
    found = dict(cast("Mapping[Any, Any]", given))
    for name, limits in found.items():
        if not isinstance(name, str) or not isinstance(limits, SpendingLimits):
            raise InvalidConfig(
                f"spending_limits[{name!r}] is {limits!r}. Give SpendingLimits by the names of workspaces, and by "
                f"{EVERY_OTHER!r} for all others."
            )
    return found
