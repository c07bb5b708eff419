"""The workers of a fleet as Ray actors.

Every member is an actor whose methods are called in their order. Of each member only the reference of the last call is
watched: its result says that the member has come further, and its error that the actor is gone. Ray restarts no actor
itself, because the supervisor has to see each loss, and decides when a replacement starts.

The actors are not detached: Ray ends them when the supervisor ends, however that happens. Detached ones would run on
unseen, without anybody who scales or drains them. Other workers release and continue their runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from statewright.cli.workers.fleet.fleet import Member, MemberState
from statewright.cli.workers.fleet.hosted_worker import WorkerSpec
from statewright.cli.workers.fleet.options import Placement
from statewright.cli.workers.fleet.worker_actor import WorkerActor

_MAX_REASON: Final = 400
"""Characters of the reason of a loss in logs."""


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
        handle = self._actor_class.remote()
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
                actor.call = handle.load.remote(self._spec)
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
    reasons = [line for line in lines if line.startswith(("The actor is dead", "The actor died", "Failed to"))]
    # The end of a traceback from the actor is its error.
    text = reasons[-1] if reasons else next((line for line in reversed(lines) if line), type(error).__name__)
    return f"{type(error).__name__}: {text}"[:_MAX_REASON]
