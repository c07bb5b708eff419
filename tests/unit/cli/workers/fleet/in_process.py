"""A fleet whose workers are services of this process: they advance runs like any worker, on threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from statewright.cli.workers.fleet.fleet import Member, MemberState
from statewright.service import Service
from statewright.service.background.loop_thread import LoopThread


@dataclass(slots=True)
class _Entry:
    member: Member
    service: Service
    end: Future[Any] | None = None


class InProcessFleet:
    """A `Fleet` in one process. A worker comes one state further with each poll, if there is room for it."""

    def __init__(self, new_service: Callable[[], Service], room: int = 1000) -> None:
        self._new_service = new_service
        self.room = room
        """The number of workers that the imaginary cluster can run."""
        self.refusal: str | None = None
        """Why workers refuse to start."""
        self.killed: list[str] = []
        self._entries: dict[str, _Entry] = {}
        self._count = 0
        self._loop = LoopThread("fleet of a test")
        self._loop.start()

    def add(self) -> str:
        self._count += 1
        member = Member(id=f"actor_{self._count}", state=MemberState.PENDING)
        self._entries[member.id] = _Entry(member, self._new_service())
        return member.id

    def poll(self) -> Sequence[Member]:
        for entry in self._entries.values():
            self._advance(entry)
        members = [entry.member for entry in self._entries.values()]
        self._entries = {
            member_id: entry
            for member_id, entry in self._entries.items()
            if entry.member.state is not MemberState.ENDED
        }
        return members

    def _advance(self, entry: _Entry) -> None:
        member = entry.member
        match member.state:
            case MemberState.PENDING if self._running < self.room:
                entry.member = replace(member, state=MemberState.STARTING, host="here", pid=1)
            case MemberState.STARTING if self.refusal is not None:
                entry.member = replace(member, state=MemberState.ENDED, loss=self.refusal, refused=True)
            case MemberState.STARTING:
                entry.member = replace(member, state=MemberState.BEGINNING)
            case MemberState.BEGINNING:
                self._loop.submit(entry.service.start_working()).result()
                assert entry.service.worker is not None
                entry.member = replace(member, state=MemberState.WORKING, worker_id=entry.service.worker.id)
                entry.end = self._loop.submit(_drain_on_request(entry.service))
            case MemberState.WORKING if entry.end is not None and entry.end.done():
                entry.end.result()
                entry.member = replace(member, state=MemberState.ENDED)
            case _:
                pass

    @property
    def _running(self) -> int:
        return sum(entry.member.state is not MemberState.PENDING for entry in self._entries.values())

    def kill(self, member_id: str) -> None:
        self.killed.append(member_id)
        entry = self._entries.pop(member_id, None)
        if entry is not None and entry.end is not None:
            self._stop(entry)

    def lose(self, member_id: str) -> None:
        """End a worker as if its process had died, except that its runs are released at once."""
        entry = self._entries[member_id]
        self._stop(entry)
        entry.member = replace(entry.member, state=MemberState.ENDED, loss="killed")

    def _stop(self, entry: _Entry) -> None:
        if entry.end is not None:
            entry.end.cancel()
        self._loop.submit(entry.service.stop(0)).result()

    def close(self) -> None:
        """End all workers."""
        for member_id in list(self._entries):
            self.kill(member_id)
        self._loop.stop()

    def describe_shortage(self) -> str:
        return f"there is room for {self.room}"


async def _drain_on_request(service: Service) -> None:
    assert service.worker is not None
    await asyncio.wrap_future(service.worker.drain_request)
    await service.stop()
