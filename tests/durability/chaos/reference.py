"""The final states of a thread that is run without kills, in which all other threads must end too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.durability.chaos.actions import next_action, view_thread
from tests.durability.chaos.graphs import ExpectedFailure
from tests.durability.chaos.notes import DiscardedNotes
from tests.durability.chaos.shapes import ShiftedClock, compile_app

from statewright import InMemorySaver


def is_token(value: object) -> bool:
    """Return whether a value is the token of an effect."""
    return isinstance(value, str) and "#" in value


def normalized(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without the random parts of tokens."""
    log = [entry.partition("#")[0] if is_token(entry) else entry for entry in values.get("log", ())]
    return {**values, "log": log} if log else dict(values)


def reference_states(shape: str) -> Any:
    """Return the final states of the branches of a thread, from a run in memory without kills."""
    app = compile_app(shape, InMemorySaver(), DiscardedNotes())
    while True:
        view = view_thread(app, shape, "1")
        states = {branch: app.get_state(thread_id="1", branch=branch) for branch in view.branches}
        action = next_action(shape, "1", view, states, ShiftedClock(0).now())
        if action is None:
            return {branch: normalized(state.values) for branch, state in states.items()}
        branch, (method, args, options) = action
        try:
            getattr(app, method)(*args, **options, **({} if method == "fork" else {"thread_id": "1", "branch": branch}))
        except ExpectedFailure:
            continue
