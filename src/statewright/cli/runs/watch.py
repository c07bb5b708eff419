"""Following a run until it has ended or waits for outside input."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from statewright.cli.console.failure import FAILED, exit_with
from statewright.cli.console.printing import say, warn
from statewright.cli.console.values import print_state, to_json
from statewright.cli.runs.text import EXIT_CODES, format_run_error, format_wait, list_waits, next_commands
from statewright.clock import SystemClock

if TYPE_CHECKING:
    from statewright.client import Client, Event, Run

_MOMENT: Final = 0.1
"""Seconds within which a worker picks up a due run."""


def follow_run(
    client: Client, run_id: str, tell: Callable[[Event], None], *, after: int = 0, to_the_end: bool = False
) -> Run:
    """Pass the events of a run to `tell` until it is idle or, with `to_the_end`, has ended. A timer is not idle."""
    for event in client.runs.follow(run_id, after=after):
        tell(event)
        if not to_the_end and _may_be_idle(event) and _is_idle(client, run_id, event.seq):
            break
    return client.runs.get(run_id)


def _may_be_idle(event: Event) -> bool:
    return event.event_type == "WORKFLOW_PAUSED" and event.payload.get("reason") != "timer"


def _is_idle(client: Client, run_id: str, last: int) -> bool:
    """Return True if no event follows and none is about to, such as after an answer that was just sent."""
    for look in range(2):
        if look:
            time.sleep(_MOMENT)
        run = client.runs.get(run_id)
        is_due = run.next_run_at is not None and run.next_run_at <= SystemClock().now()
        if run.status not in ("waiting", "paused") or is_due or client.runs.events(run_id, after=last).items:
            return False
    return True


def exit_with_outcome(client: Client, run: Run, url: str | None, *, json_wanted: bool) -> NoReturn:
    """Print the result of a run or what it waits for, and exit with the code of its status."""
    code = EXIT_CODES.get(run.status, FAILED)
    if json_wanted:
        say(to_json(run.raw))
        raise SystemExit(code)
    match run.status:
        case "completed":
            print_state(run.output, json_wanted=False)
        case "failed":
            exit_with(f"Error: {format_run_error(run)}\nRetry it with: statewright runs retry {run.id}", code)
        case "waiting" | "paused":
            _print_waits(client, run, url)
        case _:
            warn(f"The run is {run.status}.")
    raise SystemExit(code)


def _print_waits(client: Client, run: Run, url: str | None) -> None:
    waits = list_waits(client, run) if run.status == "waiting" else []
    why = (
        [f"  {format_run_error(run)}"] if run.error is not None else []
    )  # it rests until its workspace may spend again
    lines = [f"Run {run.id} is {run.status}.", *why, *(f"  {format_wait(line)}" for line in waits)]
    ways = next_commands(run, waits, url)
    warn("\n".join([*lines, *(["Continue with:"] if ways else []), *(f"  {line}" for line in ways)]))
