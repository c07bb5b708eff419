"""Print a run: its events as they happen, and at the end its states, its cost, and the sent email."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from mail import Mailbox

from statewright.runs import Run, RunEvent
from statewright.service import Service


def show_event(event: RunEvent) -> None:
    """Print an event of the log as one line."""
    payload = {key: value for key, value in event.payload.items() if value is not None}
    step = payload.pop("stepName", "")
    print(f"{event.seq:>3} {event.type:<20} {step:<13} {as_json(payload) if payload else ''}".rstrip(), flush=True)


async def show_end(service: Service, run: Run, mailbox: Mailbox) -> None:
    """Print the current result of a run."""
    history = await service.threads.history(run.workspace_id, run.thread_id)
    for step, before, after in changes(history):
        print(f"\n{step}\n  before  {as_json(before)}\n  after   {as_json(after)}")
    spent = (await service.cost(run.workspace_id, run.id)).total
    print(f"\nCost: {spent.calls} call, {spent.input_tokens} + {spent.output_tokens} tokens, ${spent.cost:.6f}")
    for letter in mailbox.letters():
        print(f"In the mailbox: {letter.id} to {letter.recipient}, requested {letter.requests} time(s)")
    print(f"The run is {run.status}{': ' + run.error['message'] if run.error else '.'}")
    if run.output is not None:
        print(f"Output: {as_json(run.output)}")


def changes(history: list[dict[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the completed steps, each with the state before and after it. Histories are newest first."""
    for before, after in pairwise(reversed(history)):
        yield before["next"][0], before["values"], after["values"]


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
