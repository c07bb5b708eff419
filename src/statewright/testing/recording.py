"""An instrument that keeps events for assertions."""

from __future__ import annotations

from statewright.events import Event
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument


class RecordingInstrument(Instrument):
    """Keeps every event, in the order of arrival."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events, in order."""
        return [event.kind for event in self.events]

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if event.kind == kind]


def _record(self: RecordingInstrument, event: Event) -> None:
    self.events.append(event)


# Assigned to the class, because an event is only emitted if the method of its kind is overridden.
for _name in METHOD_BY_KIND.values():
    setattr(RecordingInstrument, _name, _record)
