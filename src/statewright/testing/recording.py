"""An instrument that keeps all events, for assertions."""

from __future__ import annotations

from statewright.events import Event
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument


class RecordingInstrument(Instrument):
    """Keeps every event of the runs that it observes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        """In the order in which they were emitted."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if event.kind == kind]


def _record(self: RecordingInstrument, event: Event) -> None:
    self.events.append(event)


# The methods are set on the class, because an event is emitted only if the class overrides the method of its kind.
for _name in METHOD_BY_KIND.values():
    setattr(RecordingInstrument, _name, _record)
