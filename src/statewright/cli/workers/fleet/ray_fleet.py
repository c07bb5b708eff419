"""The workers of a fleet as Ray actors.

Every member is an actor whose methods are called in their order. Of each member only the reference of the last call is
watched: its result says that the member has come further, and its error that the actor is gone. Ray restarts no actor
itself, because the supervisor has to see each loss, and decides when a replacement starts.

The actors are not detached: Ray ends them when the supervisor ends, however that happens. Detached ones would run on
unseen, without anybody who scales or drains them. Other workers release and continue their runs.

The name of a fleet is that of a small actor without resources, which Ray ends with the supervisor, too. So a second
supervisor with the same name is refused, and one that replaces a killed supervisor is not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.fleet import Member, MemberState
from statewright.cli.workers.fleet.options import Placement
from statewright.cli.workers.fleet.worker_actor import WorkerActor, WorkerSpec

NAME_SECONDS: Final = 15.0
"""Seconds to wait for the name of a fleet: Ray needs some to notice that the previous supervisor has ended."""
ACTOR_SECONDS: Final = 120.0
"""Seconds that Ray has to start the actor with the name: a process, which imports this package."""
_MAX_REASON: Final = 400
"""Characters of the reason of a loss in logs."""


class FleetName:
    """An actor that does nothing. Its name is that of the fleet."""

    def exists(self) -> bool:
        """Return True. The call fails if another actor has got the name."""
        return True


def claim_name(ray: Any, name: str, seconds: float = NAME_SECONDS) -> Any:
    """Claim the name of a fleet on the cluster for this process, and return the actor that holds it.

    Raises UsageError if another supervisor has the name for longer than some seconds.
    """
    # The actor survives the loss of its node, but not the end of this process.
    actor_class = ray.remote(FleetName).options(name=f"fleet {name}", num_cpus=0, max_restarts=-1)
    until = time.monotonic() + seconds
    while True:
        # Ray looks for the name before it creates an actor, and may still find another one while it does.
        with suppress(ValueError, ray.exceptions.RayActorError):
            actor = actor_class.remote()
            _wait_for(ray, actor)
            return actor
        if time.monotonic() >= until:
            raise UsageError(
                f"The fleet {name!r} has a supervisor on this cluster already. Stop it, or give this fleet another "
                f"name with --fleet NAME."
            )
        time.sleep(0.5)


def _wait_for(ray: Any, actor: Any) -> None:
    try:
        ray.get(actor.exists.remote(), timeout=ACTOR_SECONDS)
    except ray.exceptions.GetTimeoutError:
        raise UsageError(
            f"The Ray cluster has not started an actor without resources within {ACTOR_SECONDS:g} seconds. Check its "
            f"nodes with: ray status"
        ) from None


@dataclass(slots=True)
class _Actor:
    """An actor, the member that it is, and the call whose end is awaited."""

    handle: Any
    member: Member
    call: Any


class RayFleet:
    """A `Fleet` whose workers are actors of a cluster to which this process is connected."""

    def __init__(self, ray: Any, spec: WorkerSpec, placement: Placement) -> None:
        self._ray = ray
        self._placement = placement
        # With SPREAD, the loss of a node takes as few workers as possible.
        options = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD", **placement.options}
        self._actor_class: Any = ray.remote(WorkerActor).options(**options)
        self._spec = spec
        self._actors: dict[str, _Actor] = {}

    def add(self) -> str:
        handle = self._actor_class.remote(self._spec)
        member = Member(id=handle._actor_id.hex(), state=MemberState.PENDING)
        self._actors[member.id] = _Actor(handle, member, handle.locate.remote())
        return member.id

    def poll(self) -> Sequence[Member]:
        members: list[Member] = []
        for actor in list(self._actors.values()):
            while actor.member.state is not MemberState.ENDED and self._is_done(actor.call):
                self._advance(actor)
            members.append(actor.member)
            if actor.member.state is MemberState.ENDED:
                self.kill(actor.member.id)
        return members

    def kill(self, member_id: str) -> None:
        actor = self._actors.pop(member_id, None)
        if actor is not None:
            with suppress(Exception):  # of an actor that is gone
                self._ray.kill(actor.handle)

    def describe_shortage(self) -> str:
        needs = f"a worker needs {self._placement.options}"
        try:
            return f"{needs}; free in the cluster are {self._ray.available_resources()}"
        except Exception:  # the cluster does not answer
            return needs

    def _is_done(self, call: Any) -> bool:
        return bool(self._ray.wait([call], timeout=0, fetch_local=False)[0])

    def _advance(self, actor: _Actor) -> None:
        """Take the result of the call of an actor, and make the next one."""
        handle, member = actor.handle, actor.member
        try:
            result = self._ray.get(actor.call)
        except Exception as error:
            actor.member = replace(member, state=MemberState.ENDED, loss=_reason_of(error))
            return
        match member.state:
            case MemberState.PENDING:
                actor.member = replace(
                    member, state=MemberState.STARTING, node=result.node, host=result.host, pid=result.pid
                )
                actor.call = handle.load.remote()
            case MemberState.STARTING if result is not None:
                actor.member = replace(member, state=MemberState.ENDED, loss=result, refused=True)
            case MemberState.STARTING:
                actor.member = replace(member, state=MemberState.BEGINNING)
                actor.call = handle.begin.remote()
            case MemberState.BEGINNING:
                actor.member = replace(member, state=MemberState.WORKING, worker_id=result)
                actor.call = handle.join.remote()
            case _:
                actor.member = replace(member, state=MemberState.ENDED)


def _reason_of(error: Exception) -> str:
    """Return why an actor was lost, in one line: Ray describes that in several."""
    lines = [line.strip() for line in str(error).splitlines()]
    known = [line for line in lines if line.startswith(("The actor is dead", "The actor died", "Failed to"))]
    # The end of a traceback from the actor is its error.
    text = known[-1] if known else next((line for line in reversed(lines) if line), type(error).__name__)
    return f"{type(error).__name__}: {text}"[:_MAX_REASON]
