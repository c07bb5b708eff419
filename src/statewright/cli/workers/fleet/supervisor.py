"""The supervisor of a fleet: starts, replaces, drains and kills workers until the fleet has the size that is planned.

Each step looks at the workers and at the ledger, plans the size, and makes the fleet larger or smaller. No step waits:
an operation that it begins, such as draining a worker, is followed by later steps. The supervisor stores nothing and
advances no run. If it dies, the workers are lost with it, and their runs are released as those of any lost worker.

Workers drain by the request in their record of the ledger, as after `statewright workers drain`: the supervisor cannot
know what a worker is executing, and a worker that is killed repeats its steps elsewhere. Only workers that have not
begun are killed at once. If the ledger cannot be read, the size stays as it is, and the fleet is kept at that size.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.demand import read_demand
from statewright.cli.workers.fleet.fleet import Fleet, Member, MemberState
from statewright.cli.workers.fleet.restarts import RestartBackoff
from statewright.cli.workers.fleet.scaling import ScalingPolicy, SizePlan, plan_size
from statewright.clock import Clock
from statewright.data.mappings import without_none
from statewright.errors import StatewrightError
from statewright.runs import Ledger
from statewright.service.operations.workers import request_drain

logger = logging.getLogger("statewright.fleet")
STEP_SECONDS: Final = 1.0
"""Seconds between two steps."""
READING_SHARE: Final = 0.05
"""The greatest share of the time that the supervisor spends with reading the ledger, which workers need more."""
PENDING_WARNING_SECONDS: Final = 30.0
"""Seconds for which workers wait for resources until a warning says what is missing, and between two warnings."""
EXTRA_DRAIN_SECONDS: Final = 15.0
"""Seconds to end for a worker that has drained or whose steps ignore their cancellation, before it is killed."""


@dataclass(slots=True)
class _Draining:
    """A worker that was told to drain, or will be once it is registered."""

    kill_at: float
    is_requested: bool = False


class Supervisor:
    """Keeps the workers of a fleet at the planned size. All methods are called on one event loop."""

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        policy: ScalingPolicy,
        clock: Clock,
        *,
        queues: Sequence[str] | None = None,
        drain: float,
        heartbeat: float,
    ) -> None:
        """Create a supervisor. `queues` are those that the workers serve, None for all.

        `drain` are the seconds that running steps have to end, and `heartbeat` the seconds between two heartbeats of a
        worker, with which it notices that it has to drain.
        """
        self._fleet = fleet
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self._queues = queues
        self._drain_timeout = drain + heartbeat + EXTRA_DRAIN_SECONDS
        self._plan = SizePlan(size=policy.min)
        self._restarts = RestartBackoff()
        self._members: dict[str, Member] = {}
        self._draining: dict[str, _Draining] = {}
        self._claims: Mapping[str, int] = {}
        """The number of runs of each worker, by its id in the ledger, at the last reading."""
        self._can_read = True
        self._has_worked = False
        """True once a worker has begun: from then on, a worker that does not start is replaced like a lost one."""
        self._pending_since: float | None = None
        self.losses = 0
        """The number of workers that were lost, and replaced since."""

    @property
    def desired(self) -> int:
        """The planned number of workers."""
        return self._plan.size

    def count_by_state(self) -> dict[str, int]:
        """Return the number of workers by state: `working`, `starting`, `pending` or `draining`."""
        counts = Counter(self._state_of(member) for member in self._members.values())
        return {state: counts[state] for state in ("working", "starting", "pending", "draining")}

    def _state_of(self, member: Member) -> str:
        if member.id in self._draining:
            return "draining"
        return "starting" if member.state is MemberState.BEGINNING else member.state.value

    async def supervise(self, must_end: asyncio.Event) -> None:
        """Take steps until the event is set. Raises UsageError if the first worker cannot start."""
        while not must_end.is_set():
            begun_at = self._clock.monotonic()
            await self.step()
            seconds = (self._clock.monotonic() - begun_at) / READING_SHARE
            await _wait(must_end, max(STEP_SECONDS, seconds))

    async def step(self) -> None:
        """Look at the fleet and the ledger once, and do what has become necessary."""
        self._look_at_members()
        await self._replan()
        self._resize()
        await self._continue_draining()
        self._warn_of_pending()

    # -- the members

    def _look_at_members(self) -> None:
        """Update the members, and report those that have begun or ended."""
        now = self._clock.monotonic()
        lost: list[Member] = []
        for member in self._fleet.poll():
            previous = self._members.get(member.id)
            self._members[member.id] = member
            if member.state is MemberState.WORKING and (previous is None or previous.state is not MemberState.WORKING):
                self._has_worked = True
                logger.info("A worker of the fleet has started.", extra=_fields_of(member))
            elif member.state is MemberState.ENDED:
                was_draining = self._forget(member.id)
                if member.loss is None:
                    logger.info("A worker of the fleet has drained.", extra=_fields_of(member))
                elif was_draining:
                    logger.warning("A draining worker of the fleet was lost.", extra=_fields_of(member))
                else:
                    lost.append(member)
        if lost:
            self._report_losses(lost, now)

    def _report_losses(self, lost: Sequence[Member], now: float) -> None:
        refusal = next((member.loss for member in lost if member.refused), None)
        if refusal is not None and not self._has_worked:
            raise UsageError(f"A worker of the fleet cannot start: {refusal}")
        self.losses += len(lost)
        delay = self._restarts.record_loss(now)
        for member in lost:
            extra = {**_fields_of(member), "replaced_in_seconds": delay}
            logger.warning("A worker of the fleet was lost.", extra=extra)

    def _forget(self, member_id: str) -> bool:
        """Remove a member. Return whether it was draining."""
        self._members.pop(member_id, None)
        return self._draining.pop(member_id, None) is not None

    def _kill(self, member: Member) -> None:
        self._fleet.kill(member.id)
        self._forget(member.id)

    @property
    def _active(self) -> list[Member]:
        """The members that count for the size of the fleet, those that were started last at the end."""
        return [member for member in self._members.values() if member.id not in self._draining]

    # -- the size

    async def _replan(self) -> None:
        working = [member.worker_id for member in self._active if member.worker_id is not None]
        try:
            demand = await read_demand(self._ledger, self._queues, working, self._clock.now())
        except StatewrightError:
            if self._can_read:  # once: the next steps fail, too, until the database is back
                logger.exception("The queues cannot be read. The fleet keeps its size until they can.")
            self._can_read = False
            return
        if not self._can_read:
            logger.info("The queues can be read again.")
        self._can_read, self._claims = True, demand.claims
        previous, now = self._plan.size, self._clock.monotonic()
        self._plan = plan_size(self._policy, demand, len(working), self._plan, now)
        if self._plan.size != previous:
            fields: dict[str, Any] = {
                "size": self._plan.size,
                "previous_size": previous,
                "reason": self._plan.reason,
                **self.count_by_state(),
            }
            logger.info("The fleet changes its size.", extra=fields)

    def _resize(self) -> None:
        """Start the workers that are missing, and drain those that are too many."""
        now, surplus = self._clock.monotonic(), len(self._active) - self._plan.size
        if surplus < 0 and self._restarts.may_start(now):
            for _ in range(-surplus):
                member_id = self._fleet.add()
                self._members[member_id] = Member(id=member_id, state=MemberState.PENDING)
        for member in self._choose_surplus(surplus):
            self._drain(member)

    def _choose_surplus(self, count: int) -> list[Member]:
        """Choose the members to end: those that have not begun, then those with the fewest runs; the youngest first."""
        order = list(MemberState)

        def cost(member: Member) -> tuple[int, int]:
            return order.index(member.state), self._claims.get(member.worker_id or "", 0)

        youngest_first = list(reversed(self._active))
        return sorted(youngest_first, key=cost)[: max(0, count)]

    def _drain(self, member: Member) -> None:
        """Let a worker drain, or kill it if it has not begun."""
        if member.state in (MemberState.PENDING, MemberState.STARTING):
            self._kill(member)
            logger.info("A worker of the fleet is not needed any more.", extra=_fields_of(member))
        else:
            self._draining[member.id] = _Draining(self._clock.monotonic() + self._drain_timeout)

    async def _continue_draining(self) -> None:
        """Send the drain requests that are due, and kill the workers whose time is over."""
        for member_id, draining in list(self._draining.items()):
            member = self._members.get(member_id)
            if member is None:  # a second signal has killed it during the requests
                continue
            if self._clock.monotonic() >= draining.kill_at:
                logger.warning("A worker of the fleet did not drain in time, and is killed.", extra=_fields_of(member))
                self._kill(member)
            elif not draining.is_requested and member.worker_id is not None:
                # NotFound: the worker was considered lost, and registers again with its next heartbeat. Another error:
                # the database is away. Both are tried again by the next step.
                with suppress(StatewrightError):
                    await request_drain(self._ledger, member.worker_id)
                    draining.is_requested = True
                    logger.info("A worker of the fleet was asked to drain.", extra=_fields_of(member))

    def _warn_of_pending(self) -> None:
        now, pending = self._clock.monotonic(), self.count_by_state()["pending"]
        if not pending:
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = now
        elif now - self._pending_since >= PENDING_WARNING_SECONDS:
            self._pending_since = now
            fields = {"pending": pending, "resources": self._fleet.describe_shortage()}
            logger.warning("Workers of the fleet wait for resources of the cluster.", extra=fields)

    # -- the end

    async def drain(self) -> None:
        """Let all workers drain, and return when they have ended or were killed. No worker is started any more."""
        for member in self._active:
            self._drain(member)
        await self._continue_draining()
        while self._members:
            await asyncio.sleep(STEP_SECONDS / 10)
            with suppress(UsageError):
                self._look_at_members()
            await self._continue_draining()

    def kill_all(self) -> None:
        """End all workers at once. Others continue their runs after the last completed steps."""
        for member in list(self._members.values()):
            self._kill(member)


def _fields_of(member: Member) -> dict[str, Any]:
    """Return what a log says about a member, without what is unknown."""
    fields = {
        "actor": member.id,
        "worker": member.worker_id,
        "node": member.node,
        "host": member.host,
        "pid": member.pid,
        "reason": member.loss,
    }
    return without_none(fields)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, but for at most a number of seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
