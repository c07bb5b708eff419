"""The format of open interrupts."""

from __future__ import annotations

from datetime import UTC, datetime

from statewright.checkpoint import Interrupt
from statewright.cli.console.interrupts import format_interrupt
from statewright.ids import InterruptId

AT = datetime(2030, 1, 1, tzinfo=UTC)
ID = InterruptId("a" * 32)


def test_an_interrupt_is_one_line() -> None:
    assert format_interrupt(Interrupt(id=ID, value={"ok": "?\n"})) == f"{ID}  {{'ok': '?\\n'}}"
    assert "  event 'paid'  until 20" in format_interrupt(
        Interrupt(id=ID, value="paid", kind="event", event="paid", due_at=AT)
    )
    assert "  due at 20" in format_interrupt(Interrupt(id=ID, value=None, kind="timer", due_at=AT))
