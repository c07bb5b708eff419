"""Sources of transform nodes: the context, the last message, the user's input, or the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from statewright.errors import RoutingError, suggestion
from statewright.workflow.states.expressions.output import parse_json_text, parse_output
from statewright.workflow.states.expressions.paths import MISSING, follow_path, parse_path
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.yaml.nodes import shorten

Data = dict[str, Any]
"""JSON values by name, for mappings. It must not be modified."""


def _of_messages(call: Call) -> Any:
    return parse_output(call.history[-1].text) if call.history else {}


def _of_state(call: Call) -> Any:
    """Return the visible parts of the state by name."""
    return {
        "context_store": dict(call.context),
        "messages": [{"role": message.role, "content": message.text, "name": message.name} for message in call.history],
        "user_input": call.lineage.raw_input,
        "task": call.scope.get("task"),
        "state_id": call.state.id,
    }


SOURCES: Final[Mapping[str, Callable[[Call], Any]]] = {
    "context_store": lambda call: dict(call.context),
    "messages": _of_messages,
    "user_input": lambda call: call.lineage.input.result,
    "state_schema": _of_state,
}
"""Functions that read each `input_source`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source, and the selected part of it."""

    name: str = "context_store"
    key: str | None = None
    """A path with `[n]`, `[-n]` and `[a:b]`; None for all of it."""

    def data(self, call: Call) -> Data:
        """Return the data for mappings. Raises RoutingError if the key does not exist."""
        value = SOURCES[self.name](call)
        data = cast("Data", value) if isinstance(value, dict) else {self.name: value}
        return data if self.key is None else select_part(data, self.key)


def select_part(data: Data, key: str) -> Data:
    """Return a part of the data: the map at a plain key, else the value at a path, under its last name.

    JSON text on the path is parsed. Raises RoutingError if the key does not exist.
    """
    steps = (key,) if key in data else parse_path(key)
    if steps is None:
        raise RoutingError(f"{shorten(key)!r} is not a path. Write name.field[0] or rows[1:3].")
    part: Any = data
    for step in steps:
        container, part = part, parse_json_text(follow_path(part, (step,)))
        if part is MISSING:
            raise RoutingError(_describe_missing(key, step, container))
    if len(steps) == 1 and isinstance(part, dict):
        return cast("Data", part)
    return {_last_name(steps): part}


def _last_name(steps: tuple[str | int | slice, ...]) -> str:
    return next(step for step in reversed(steps) if isinstance(step, str))


def _describe_missing(key: str, step: str | int | slice, above: Any) -> str:
    label = f"[{step.start or ''}:{step.stop or ''}]" if isinstance(step, slice) else repr(step)
    names = list(cast("Data", above))[:20] if isinstance(above, dict) else []
    hint = f" {suggestion(str(step), map(str, names), noun='Keys')}" if names else ""
    return f"The path {shorten(key)!r} does not exist: there is no {label}.{hint}"
