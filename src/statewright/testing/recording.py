"""An instrument that remembers what it was told."""

from __future__ import annotations

from statewright.events import Event
from statewright.runtime import Instrument


class RecordingInstrument(Instrument):
    """Keeps every event, in the order in which it came."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @property
    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [event.kind for event in self.events]

    def of_kind(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def on_run_started(self, event: Event) -> None:
        self.events.append(event)

    def on_run_finished(self, event: Event) -> None:
        self.events.append(event)

    def on_superstep(self, event: Event) -> None:
        self.events.append(event)

    def on_task_started(self, event: Event) -> None:
        self.events.append(event)

    def on_task_finished(self, event: Event) -> None:
        self.events.append(event)

    def on_task_ended(self, event: Event) -> None:
        self.events.append(event)

    def on_step_started(self, event: Event) -> None:
        self.events.append(event)

    def on_step_finished(self, event: Event) -> None:
        self.events.append(event)

    def on_run_broken_off(self, event: Event) -> None:
        self.events.append(event)

    def on_attempt_failed(self, event: Event) -> None:
        self.events.append(event)

    def on_interrupt(self, event: Event) -> None:
        self.events.append(event)

    def on_resume(self, event: Event) -> None:
        self.events.append(event)

    def on_commit(self, event: Event) -> None:
        self.events.append(event)

    def on_message(self, event: Event) -> None:
        self.events.append(event)

    def on_custom(self, event: Event) -> None:
        self.events.append(event)

    def on_model_called(self, event: Event) -> None:
        self.events.append(event)

    def on_tool_called(self, event: Event) -> None:
        self.events.append(event)

    def on_question_changed(self, event: Event) -> None:
        self.events.append(event)
