"""A run followed to its rest: until it has ended, or until it waits for somebody outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from statewright.cli.console.failure import FAILED, end
from statewright.cli.console.printing import say, warn
from statewright.cli.console.values import as_json, print_state
from statewright.cli.runs.text import EXIT_CODES, error_line, wait_line, waits_of, ways_on
from statewright.clock import SystemClock

if TYPE_CHECKING:
    from statewright.client import Client, Event, Run

_MOMENT: Final = 0.1
"""Seconds in which a worker takes up what is due."""


def followed(
    client: Client, run_id: str, tell: Callable[[Event], None], *, after: int = 0, to_the_end: bool = False
) -> Run:
    """The run at rest, or at its end, its events told on the way. What waits only for the clock is not at rest."""
    for event in client.runs.follow(run_id, after=after):
        tell(event)
        if not to_the_end and _may_be_rest(event) and _rests(client, run_id, event.seq):
            break
    return client.runs.get(run_id)


def _may_be_rest(event: Event) -> bool:
    return event.event_type == "WORKFLOW_PAUSED" and event.payload.get("reason") != "timer"


def _rests(client: Client, run_id: str, last: int) -> bool:
    """Whether nothing has come after an event, and nothing is about to: an answer that was just given, say."""
    for look in range(2):
        if look:
            time.sleep(_MOMENT)
        run = client.runs.get(run_id)
        is_due = run.next_run_at is not None and run.next_run_at <= SystemClock().now()
        if run.status not in ("waiting", "paused") or is_due or client.runs.events(run_id, after=last).items:
            return False
    return True


def conclude(client: Client, run: Run, url: str | None, *, json_wanted: bool) -> NoReturn:
    """Print what a run gave, or what it waits for, and leave with the exit code that says how it stands."""
    code = EXIT_CODES.get(run.status, FAILED)
    if json_wanted:
        say(as_json(run.raw))
        raise SystemExit(code)
    match run.status:
        case "completed":
            print_state(run.output, json_wanted=False)
        case "failed":
            end(f"Error: {error_line(run)}\nRetry it with: statewright runs retry {run.id}", code)
        case "waiting" | "paused":
            _tell_waits(client, run, url)
        case _:
            warn(f"The run is {run.status}.")
    raise SystemExit(code)


def _tell_waits(client: Client, run: Run, url: str | None) -> None:
    waits = waits_of(client, run) if run.status == "waiting" else []
    why = [f"  {error_line(run)}"] if run.error is not None else []  # it rests until its workspace may spend again
    lines = [f"Run {run.id} is {run.status}.", *why, *(f"  {wait_line(one)}" for one in waits)]
    ways = ways_on(run, waits, url)
    warn("\n".join([*lines, *(["Continue with:"] if ways else []), *(f"  {one}" for one in ways)]))
