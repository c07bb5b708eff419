"""Formatting of open interrupts: questions, events and timers that a run is waiting for."""

from __future__ import annotations

from statewright.checkpoint import Interrupt
from statewright.cli.console.table import format_instant


def format_interrupt(interrupt: Interrupt) -> str:
    """Format an interrupt as one line: its id, value, event and deadline."""
    event = f"  event {interrupt.event!r}" if interrupt.event is not None else ""
    label = "due at" if interrupt.kind == "timer" else "until"
    deadline = f"  {label} {format_instant(interrupt.due_at)}" if interrupt.due_at is not None else ""
    return f"{interrupt.id}  {interrupt.value!r}{event}{deadline}"
