"""The size that a fleet should have: a pure function of the queue, the fleet and the time.

*The problem.* Neither number of a queue says by itself that workers are missing. Its depth is large for a moment
whenever many runs start at once, and one worker may be done with them in a second. The age of its oldest run grows
without end if a limit of the queue, a workspace or a key holds the run back, whatever the number of workers. And Ray
needs seconds to start a worker, or minutes if a machine has to be added, during which the queue keeps growing.

*The approach.* The fleet grows if runs have been due for too long, and its workers are busy: idle workers prove that
the runs wait for something else. It at most doubles, measured by the running workers, so workers that Ray
cannot place are counted, and never multiplied. Then it waits for a moment, so that the new workers claim what is due
before it is measured again. It shrinks if one worker less would still leave half of the places free, and only if that
was so without interruption for `idle` seconds. If the fleet has to grow again soon after it has shrunk, the load is a
bit too much for the smaller fleet. Then the next shrink takes twice the time, so that the size does not alternate.

*Rejected.* A target of runs a worker, as autoscalers of Kubernetes have: how many runs a worker can advance at once
differs by a factor of thousands between waiting for models and computing. A rate of arrivals, from which the needed
number follows: it needs the duration of runs, which is unknown at the beginning, when scaling matters most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

BUSY_SHARE: Final = 0.5
"""Workers are busy if at least this share of their places is taken."""
SETTLE_SECONDS: Final = 2.0
"""Seconds after a change in which the fleet does not grow: workers poll each second, and new ones have to begin."""
UNDONE_WITHIN: Final = 8
"""If the fleet has to grow within this many times the patience with which it has shrunk, the step was too large: a
backlog grows slowly if the smaller fleet is almost large enough."""
MAX_PATIENCE: Final = 16
"""The time until the fleet shrinks is at most this many times `idle`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """The limits of a fleet, and when it grows and shrinks. All times are in seconds."""

    min: int
    max: int
    capacity: int
    """The number of runs that one worker advances concurrently: its places."""
    target_age: float = 5.0
    """The fleet grows if a run has been due for longer than this."""
    idle: float = 60.0
    """The fleet shrinks if it was too large for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The runs that a fleet serves, at one instant."""

    oldest: float = 0.0
    """Seconds for which the oldest run that could be claimed has been due; 0 if there is none."""
    depth: int = 0
    """The number of due runs that no worker has claimed."""
    lost: int = 0
    """The number of runs that lost workers have claimed. Only a worker releases them, so that they are due again."""
    claims: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of runs that each working member of the fleet is advancing, by the id of the worker."""

    @property
    def claimed(self) -> int:
        """The number of runs that the fleet is advancing."""
        return sum(self.claims.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """The size that a fleet should have, and what the next plan has to know about the past."""

    size: int
    """The number of workers, those included that are being started."""
    reason: str = "the minimum"
    """Why the size was last changed, for the log."""
    changed_at: float = -math.inf
    shrunk_at: float = -math.inf
    quiet_since: float | None = None
    """Since when the fleet has been too large without interruption."""
    patience: float = 0.0
    """Seconds until the fleet shrinks, if that is more than `idle`."""


def plan_size(policy: ScalingPolicy, demand: Demand, working: int, plan: SizePlan, now: float) -> SizePlan:
    """Return the next plan of a fleet. Pure: the same arguments give the same plan.

    `working` is the number of running workers, without those that are being started or drained. `plan` is the
    previous plan, and `now` a number of seconds that never decreases.
    """
    bounded = min(max(plan.size, policy.min), policy.max)
    if bounded != plan.size:
        return replace(plan, size=bounded, reason="the limits of the fleet", changed_at=now, quiet_since=None)
    if is_pressed(policy, demand, working):
        return _grow(policy, demand, working, replace(plan, quiet_since=None), now)
    smaller = _smaller_size(policy, demand, plan.size)
    if smaller == plan.size:
        return replace(plan, quiet_since=None)
    return _shrink(policy, demand, smaller, plan, now)


def is_pressed(policy: ScalingPolicy, demand: Demand, working: int) -> bool:
    """Return True if runs wait for too long, and the fleet has no free workers that could have claimed them."""
    is_busy = demand.claimed >= BUSY_SHARE * policy.capacity * working
    return is_busy and (demand.oldest >= policy.target_age or _needs_release(demand, working))


def _needs_release(demand: Demand, working: int) -> bool:
    """Return True if runs of lost workers would wait for ever. A supervisor that was killed may leave such runs."""
    return working == 0 and demand.lost > 0


def _grow(policy: ScalingPolicy, demand: Demand, working: int, plan: SizePlan, now: float) -> SizePlan:
    if now - plan.changed_at < SETTLE_SECONDS:
        return plan
    enough = math.ceil((demand.claimed + demand.depth + demand.lost) / policy.capacity)
    size = min(max(1, 2 * working), enough, policy.max)
    if size <= plan.size:
        return plan
    last_patience = max(plan.patience, policy.idle)
    is_undone = now - plan.shrunk_at <= UNDONE_WITHIN * last_patience
    patience = min(2 * last_patience, MAX_PATIENCE * policy.idle) if is_undone else 0.0
    cause = f"a run has been due for {demand.oldest:.1f} s, and the target is {policy.target_age:g} s"
    if demand.oldest < policy.target_age:
        cause = f"{demand.lost} runs of lost workers wait for a worker that releases them"
    places = f"{demand.claimed} of {policy.capacity * working} places are taken, {demand.depth} runs are due"
    return replace(plan, size=size, reason=f"{cause}; {places}", changed_at=now, patience=patience)


def _smaller_size(policy: ScalingPolicy, demand: Demand, size: int) -> int:
    """Return the size of the next smaller fleet in which half of the places would be free; `size` if there is none."""
    enough = math.ceil(demand.claimed / (BUSY_SHARE * policy.capacity))
    return min(max(policy.min, enough, size - max(1, size // 4)), size)


def _shrink(policy: ScalingPolicy, demand: Demand, smaller: int, plan: SizePlan, now: float) -> SizePlan:
    quiet_since = plan.quiet_since if plan.quiet_since is not None else now
    patience = max(plan.patience, policy.idle)
    if now - quiet_since < patience:
        return replace(plan, quiet_since=quiet_since)
    reason = (
        f"for {patience:g} s, fewer workers would have been enough; {demand.claimed} of {policy.capacity * plan.size} "
        f"places are taken"
    )
    return replace(plan, size=smaller, reason=reason, changed_at=now, shrunk_at=now, quiet_since=None)
