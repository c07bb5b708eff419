"""Runs in words: what has happened to one, what it waits for, and the command lines that let it go on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.cli.console.failure import CANCELLED, DONE, FAILED, WAITING
from statewright.cli.console.table import moment

if TYPE_CHECKING:
    from statewright.client import Client, Event, Run, Wait

EXIT_CODES: Final[Mapping[str, int]] = {
    "completed": DONE,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "waiting": WAITING,
    "paused": WAITING,
}
"""How a command ends that has followed a run to its rest."""
_LONGEST: Final = 100
"""Characters of a detail on the line of an event."""


def event_line(event: Event) -> str:
    """An event on one line."""
    at, what, step, details = event_cells(event)
    return f"{at}  {what:<22}  {step:<16}  {details}".rstrip()


def event_cells(event: Event) -> tuple[str, str, str, str]:
    """When an event was, what it was, at which step, and its details."""
    details = {name: value for name, value in event.payload.items() if name != "stepName" and value is not None}
    written = "  ".join(f"{name}={short(value)}" for name, value in details.items())
    at = event.created_at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    return at, event.event_type, event.payload.get("stepName") or "", written


def short(value: Any, longest: int = _LONGEST) -> str:
    """A value as JSON, cut where it gets long."""
    text = on_one_line(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def on_one_line(value: Any) -> str:
    """A value as JSON; a text as it stands, unless it holds breaks."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)


def instant(at: datetime | None) -> str:
    return moment(at) if at is not None else ""


def waits_of(client: Client, run: Run) -> list[Wait]:
    """What a run waits for, the oldest first."""
    found = list(client.interrupts.iterate(run_id=run.id))
    return sorted(found, key=lambda one: (one.created_at, one.id))


def is_approval(wait: Wait) -> bool:
    """Whether somebody is to agree to something."""
    value: Any = wait.value
    return isinstance(value, dict) and value.get("type") == "approval"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def wait_line(wait: Wait) -> str:
    """What is waited for, on one line."""
    until = f", until {moment(wait.due_at)}" if wait.due_at is not None else ""
    if is_approval(wait):
        return f"step {wait.step_name} waits for an approval{until}: {wait.value.get('prompt') or ''}".rstrip(": ")
    if wait.kind == "timer":
        return f"step {wait.step_name} waits{until}"
    what = f"the signal {wait.signal_type!r}" if wait.kind == "event" else f"an answer: {on_one_line(wait.value)}"
    return f"step {wait.step_name} waits for {what}{until}"


def ways_on(run: Run, waits: Sequence[Wait], url: str | None) -> list[str]:
    """The command lines that let a run go on that waits or is paused."""
    where = ["--url", url] if url is not None else []
    if run.status == "paused":
        return [_line("resume", run.id, *where)]
    return [_line(*way, *where) for way in dict.fromkeys(_way(run, wait, len(waits)) for wait in waits) if way]


def _way(run: Run, wait: Wait, count: int) -> tuple[str, ...]:
    if is_approval(wait):
        return ("approve", run.id)
    if wait.kind == "event":
        return ("signal", run.id, wait.signal_type or "", "--payload", "{}")
    answer = "VALUE" if count == 1 else f"{wait.id}=VALUE"
    return ("resume", run.id, "--answer", answer) if wait.kind == "question" else ()


def _line(*words: str) -> str:
    return shlex.join(["statewright", "runs", *words])


def error_line(run: Run) -> str:
    """What a run has failed with."""
    given: Any = run.error
    if not isinstance(given, dict):
        return short(given) if given else "The run has failed."
    error = cast("dict[str, Any]", given)
    code = error.get("code")
    step = error.get("step") or error.get("stepName")
    place = f"Step {step}: " if step else ""
    return f"{place}{error.get('message')}{f' [{code}]' if code else ''}"
