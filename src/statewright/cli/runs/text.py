"""Text about runs: their events, waits (open interrupts) and errors, and the commands that continue them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from statewright.cli.console.failure import CANCELLED, DONE, FAILED, WAITING
from statewright.cli.console.table import format_instant
from statewright.client import Client, Event, Run, Wait
from statewright.text import shorten

EXIT_CODES: Final[Mapping[str, int]] = {
    "completed": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "waiting": WAITING,
    "paused": WAITING,
}
"""Exit codes by the status of the run."""
_MAX_DETAIL: Final = 100
"""The maximum length of one detail of an event, in characters. Errors are not shortened."""


def format_event(event: Event) -> str:
    """Format an event as one line."""
    at, event_type, step, details = event_cells(event)
    return f"{at}  {event_type:<22}  {step:<16}  {details}".rstrip()


def event_cells(event: Event) -> tuple[str, str, str, str]:
    """Return the time, type, step and details of an event, as text."""
    details = {name: value for name, value in event.payload.items() if name != "stepName" and value is not None}
    # An error is not shortened: the end of its message says what to do, and after a retry it is nowhere else.
    parts = {name: one_line_json(value) if name == "error" else short_json(value) for name, value in details.items()}
    text = "  ".join(f"{name}={part}" for name, part in parts.items())
    at = event.created_at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    return at, event.event_type, event.payload.get("stepName") or "", text


def short_json(value: Any) -> str:
    """Return a value as JSON on one line, shortened to the maximum length of a detail."""
    return shorten(one_line_json(value), _MAX_DETAIL)


def one_line_json(value: Any) -> str:
    """Return a value as JSON on one line; a printable string is returned unchanged, without quotes."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)


def format_optional_instant(instant: datetime | None) -> str:
    """Format an instant in local time; empty for None."""
    return format_instant(instant) if instant is not None else ""


def list_waits(client: Client, run: Run) -> list[Wait]:
    """Return the open interrupts of a run, oldest first."""
    waits = list(client.interrupts.iterate(run_id=run.id))
    return sorted(waits, key=lambda wait: (wait.created_at, wait.id))


def is_approval(wait: Wait) -> bool:
    """Return True if a wait is for an approval."""
    value: Any = wait.value
    return isinstance(value, dict) and value.get("type") == "approval"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def format_wait(wait: Wait) -> str:
    """Format a wait as one line."""
    until = f", until {format_instant(wait.due_at)}" if wait.due_at is not None else ""
    if is_approval(wait):
        return f"step {wait.step_name} is waiting for an approval{until}: {wait.value.get('prompt') or ''}".rstrip(": ")
    if wait.kind == "timer":
        return f"step {wait.step_name} is waiting for a timer{until}"
    expected = f"the signal {wait.signal_type!r}" if wait.kind == "event" else f"an answer: {one_line_json(wait.value)}"
    return f"step {wait.step_name} is waiting for {expected}{until}"


def next_commands(run: Run, waits: Sequence[Wait], url: str | None) -> list[str]:
    """Return the command lines that continue a waiting or paused run."""
    server = ["--url", url] if url is not None else []
    if run.status == "paused":
        return [_command_line("resume", run.id, *server)]
    commands = dict.fromkeys(_next_command(run, wait, is_single=len(waits) == 1) for wait in waits)
    return [_command_line(*args, *server) for args in commands if args]


def _next_command(run: Run, wait: Wait, *, is_single: bool) -> tuple[str, ...]:
    """Return the arguments of the `statewright runs` command that ends a wait; empty for a timer."""
    if is_approval(wait):
        return ("approve", run.id)
    if wait.kind == "event":
        return ("signal", run.id, wait.signal_type or "", "--payload", "{}")
    answer = "VALUE" if is_single else f"{wait.id}=VALUE"
    return ("resume", run.id, "--answer", answer) if wait.kind == "question" else ()


def _command_line(*args: str) -> str:
    return shlex.join(["statewright", "runs", *args])


def format_run_error(run: Run) -> str:
    """Format the error of a failed run as one line."""
    value: Any = run.error
    if not isinstance(value, dict):
        return short_json(value) if value else "The run failed."
    error = cast("dict[str, Any]", value)
    code = error.get("code")
    step = error.get("step") or error.get("stepName")
    prefix = f"Step {step}: " if step else ""
    return f"{prefix}{error.get('message')}{f' [{code}]' if code else ''}"
