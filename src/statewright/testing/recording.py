"""An instrument that keeps all events, so that tests can make assertions about them."""

from __future__ import annotations

from statewright.events import Event
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument


class RecordingInstrument(Instrument):
    """Keeps every event of the runs that it observes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        """The events, in the order in which they were emitted."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if event.kind == kind]


def _record(self: RecordingInstrument, event: Event) -> None:
    self.events.append(event)


# The methods are set on the class, because an instrument receives an event only if its class overrides the method for
# events of this kind.
for _name in METHOD_BY_KIND.values():
    setattr(RecordingInstrument, _name, _record)
