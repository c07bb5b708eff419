"""Events sent to a workspace. They start runs through triggers, and wake the runs that wait for them."""

from __future__ import annotations

from datetime import datetime

from statewright.async_futures import aresolve
from statewright.errors import DuplicateRecord, InvalidRequest, RecordConflict
from statewright.ids import new_checkpoint_id
from statewright.runs import Among, Change, Condition, Insert, Json, ReceivedEvent, Signal, Trigger, Wait, where
from statewright.service.context.records import find_first
from statewright.service.engine.waits import wake_change
from statewright.service.operations.inbox import check_payload, guard_unanswered, new_signal, select_unanswered
from statewright.service.operations.launch import LaunchOperations
from statewright.service.operations.triggers import runs_of_event


class EventOperations(LaunchOperations):
    """Receives events."""

    async def send_event(self, workspace_id: str, name: str, payload: Json, *, key: str | None = None) -> ReceivedEvent:
        """Receive an event: start the runs of its triggers, and wake the runs that wait for it, in one transaction.

        A second event with the same `key` has no effect. Raises InvalidRequest for an invalid name or a payload that is
        not a map, and NotFound if a trigger names an unknown graph.
        """
        context = self.context
        if not 1 <= len(name) <= 255 or name.startswith("__"):
            raise InvalidRequest(
                f"An event cannot have the name {name!r:.80}. Use 1 to 255 characters that do not begin with __."
            )
        check_payload(payload, context.settings.max_payload)
        existing = await self._find_by_key(workspace_id, key)
        if existing is not None:
            return existing
        event_id = f"evt_{new_checkpoint_id()}"
        while True:
            now = context.now()
            event = ReceivedEvent(
                id=event_id, workspace_id=workspace_id, name=name, payload=payload, key=key, created_at=now
            )
            changes = [*await self._start_changes(event, now), *await self._wake_changes(event, now)]
            try:
                await context.write([Insert(event), *changes])
            except DuplicateRecord:
                return await self._find_by_key(workspace_id, key) or event
            except RecordConflict:  # a run no longer waits for the event, or has received an answer: try again
                continue
            context.announce_due()
            return event

    async def _find_by_key(self, workspace_id: str, key: str | None) -> ReceivedEvent | None:
        if key is None:
            return None
        return await find_first(self.context.ledger, ReceivedEvent, where(workspace_id=workspace_id, key=key))

    async def _start_changes(self, event: ReceivedEvent, now: datetime) -> list[Change]:
        """Return the changes that start the runs of matching triggers."""
        conditions = where(workspace_id=event.workspace_id, event=event.name, active=True)
        triggers = await aresolve(self.context.ledger.find(Trigger, conditions))
        changes: list[Change] = []
        for request in runs_of_event(triggers, event.id, event.name, event.payload):
            run, start_changes = await self.starter.prepare(event.workspace_id, request, now)
            event.started = [*event.started, run.id]
            changes += start_changes
        return changes

    async def _wake_changes(self, event: ReceivedEvent, now: datetime) -> list[Change]:
        """Return the changes that deliver the event to the runs that wait for it."""
        ledger = self.context.ledger
        for_event = where(workspace_id=event.workspace_id, event=event.name)
        open_waits = await aresolve(ledger.find(Wait, for_event))
        # Signals are read after the waits. If a worker takes a signal in between, it closes the wait, and this write is
        # refused.
        of_waiting_runs = Condition("run_id", "in", Among(Wait, "run_id", for_event))
        waits = select_unanswered(
            open_waits, await aresolve(ledger.find(Signal, [*where(taken=False), of_waiting_runs]))
        )
        event.woken = list(dict.fromkeys(wait.run_id for wait in waits))
        changes: list[Change] = [guard for wait in waits for guard in guard_unanswered(wait)]
        for run_id in event.woken:
            signal = new_signal(run_id, event.name, event.payload, event.id, now)
            changes += [Insert(signal), wake_change(run_id, now)]
        return changes
