"""The next call on a thread.

It depends only on the contents of the file, so that a child continues where a killed one stopped, and the auditor knows
which threads have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tests.durability.chaos.graphs import edit
from tests.durability.chaos.shapes import FORKED_AT, FORKED_AT_END, SHAPES

from statewright import Command
from statewright.futures import resolve

COPY_SUFFIX: Final = "+copy"
Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""The name of a method of the app, and its arguments."""


class ThreadView(NamedTuple):
    """Facts that determine the next call on a thread, in addition to the states of its branches."""

    branches: Sequence[str]
    oldest: Any = None
    """The config of the oldest checkpoint, to be forked when `main` is done."""
    needs_copy: bool = False


def view_thread(app: Any, shape: str, thread: str, *, may_copy: bool = False) -> ThreadView:
    """Return the facts about a thread. Only with `may_copy`, the next call may be a copy."""
    is_source = may_copy and SHAPES[shape].copies and is_copied_when_idle(thread)
    needs_copy = is_source and not exists(app, copy_of(thread))
    if not SHAPES[shape].forks:
        return ThreadView(["main"], needs_copy=needs_copy)
    branches = sorted({"main", *resolve(app.checkpointer.branches(thread))})
    history = [*app.get_state_history(thread_id=thread)] if FORKED_AT_END not in branches else []
    return ThreadView(branches, history[-1].config if history else None, needs_copy)


def next_action(
    shape: str, thread: str, view: ThreadView, states: Mapping[str, Any], now: datetime
) -> tuple[str, Call] | None:
    """Return the next call on a thread, on the branch with the fewest supersteps that is not done; None if all are."""
    main = states["main"]
    if view.needs_copy and main.created_at is not None and (main.interrupts or not main.next):
        return "main", ("copy_thread", (thread, copy_of(thread)), {})
    for branch in sorted(states, key=lambda branch: (states[branch].metadata.get("step", -1), branch)):
        call = next_fork(shape, branch, view, states) or next_call(shape, states[branch], now, branch)
        if call is not None:
            return branch, call
    return None


def next_fork(shape: str, branch: str, view: ThreadView, states: Mapping[str, Any]) -> Call | None:
    """Return the fork to be made at the head of a branch; None if there is none."""
    state = states[branch]
    if not SHAPES[shape].forks or state.created_at is None:
        return None
    if branch == "main" and not state.next and FORKED_AT_END not in states:
        return "fork", (view.oldest,), {"branch": FORKED_AT_END}
    to = FORKED_AT.get((branch, state.values["rounds"])) if state.interrupts else None
    return ("fork", (state.config,), {"branch": to}) if to is not None and to not in states else None


def next_call(shape: str, state: Any, now: datetime, branch: str) -> Call | None:
    """Return the next call on a branch; None if it is done."""
    if state.created_at is None:
        return "invoke", (dict(SHAPES[shape].input),), {}
    waiting = {question.kind: question for question in reversed(state.interrupts)}
    if event := waiting.get("event"):
        return "send_event", (event.event, {"amount": 30}), {}
    if question := waiting.get("question"):
        return "invoke", (Command(resume={question.id: f"answer of {branch} to {question.value}"}),), {}
    if waiting:
        return "resume_due", (), {"now": now + timedelta(hours=2)}
    if SHAPES[shape].edits and "review" in state.next and (changes := edit(state.values)):
        return "update_state", (None, changes), {"as_node": "draft"}
    return ("invoke", (None,), {}) if state.next else None


def checkpoint_id_of(state: Any) -> str:
    """Return the id of the checkpoint of a state."""
    return state.config["configurable"]["checkpoint_id"]


def copy_of(thread: str) -> str:
    return f"{thread}{COPY_SUFFIX}"


def is_copy(thread: str) -> bool:
    return thread.endswith(COPY_SUFFIX)


def is_copied_when_idle(thread: str) -> bool:
    """Return True if the copy of a thread is made while it is idle, False if it is made during a run."""
    return thread.endswith("0")


def exists(app: Any, thread: str) -> bool:
    return app.get_state(thread_id=thread).created_at is not None


def thread_ids(shape: str, number: int) -> list[str]:
    """Return the threads of a round: those that are advanced together, before the next ones are started."""
    threads = [f"{shape}-{number}-{index}" for index in range(SHAPES[shape].threads)]
    return [*threads, *(map(copy_of, threads) if SHAPES[shape].copies else ())]
