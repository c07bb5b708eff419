"""What a transform node reads: the context, the last message, the user's input or the state around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from statewright.errors import RoutingError, suggestion
from statewright.workflow.states.engine.context import result_of
from statewright.workflow.states.expressions.paths import MISSING, follow, read_path
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.yaml.nodes import shortened

Data = dict[str, Any]
"""What mappings read: names and values of JSON. Nobody changes it."""


def _of_messages(call: Call) -> Any:
    return result_of(call.history[-1].text) if call.history else {}


def _of_state(call: Call) -> Any:
    """The parts of the state by their names, as far as a state may see them."""
    return {
        "context_store": dict(call.context),
        "messages": [{"role": one.role, "content": one.text, "name": one.name} for one in call.history],
        "user_input": call.lineage.given,
        "task": call.scope.get("task"),
        "state_id": call.state.id,
    }


SOURCES: Final[Mapping[str, Callable[[Call], Any]]] = {
    "context_store": lambda call: dict(call.context),
    "messages": _of_messages,
    "user_input": lambda call: call.lineage.input.result,
    "state_schema": _of_state,
}
"""What each `input_source` gives."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a transform node reads, and which part of it."""

    name: str = "context_store"
    key: str | None = None
    """A path with `[n]`, `[-n]` and `[a:b]`; None for all of it."""

    def data(self, call: Call) -> Data:
        """The names that mappings may read. Raises RoutingError if the key leads nowhere."""
        found = SOURCES[self.name](call)
        data = cast("Data", found) if isinstance(found, dict) else {self.name: found}
        return data if self.key is None else part_of(data, self.key)


def part_of(data: Data, key: str) -> Data:
    """A part of data as names: the keys of a map that a plain key leads to, else the part under the last name.

    A text on the way that is JSON is read. Raises RoutingError if the key leads nowhere.
    """
    steps = (key,) if key in data else read_path(key)
    if steps is None:
        raise RoutingError(f"{shortened(key)!r} is no path. Paths look like name.field[0] or rows[1:3].")
    found: Any = data
    for step in steps:
        above, found = found, _opened(follow(found, (step,)))
        if found is MISSING:
            raise RoutingError(_lost(key, step, above))
    if len(steps) == 1 and isinstance(found, dict):
        return cast("Data", found)
    return {_last_name(steps): found}


def _last_name(steps: tuple[str | int | slice, ...]) -> str:
    return next(step for step in reversed(steps) if isinstance(step, str))


def _opened(value: Any) -> Any:
    """What a text means that is a map or list as JSON; other values as they are."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        held = result_of(value)
        return cast("Any", held) if isinstance(held, dict | list) else value
    return value


def _lost(key: str, step: str | int | slice, above: Any) -> str:
    shown = f"[{step.start or ''}:{step.stop or ''}]" if isinstance(step, slice) else repr(step)
    names = list(cast("Data", above))[:20] if isinstance(above, dict) else []
    hint = f" {suggestion(str(step), map(str, names), noun='Keys')}" if names else ""
    return f"The path {shortened(key)!r} leads nowhere: there is no {shown}.{hint}"
