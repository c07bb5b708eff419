"""Checks of `next` beyond its keys, and its targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.schema.maps import ParsedMap


def parts_in(part: ParsedMap, name: str) -> tuple[ParsedMap, ...]:
    """Return the valid maps in the list under a key."""
    listed: Any = part.values.get(name, ())
    return tuple(listed)


def check_transitions(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    """Warn about a `state_id` that a condition or a switch overrides, and about a switch without cases."""
    for state in parts_in(workflow, "states"):
        transition: ParsedMap | None = state.values.get("next")
        if transition is not None:
            _check_idle_target(state, transition, diagnostics)
            _check_cases(state, transition, diagnostics)


def _check_idle_target(state: ParsedMap, transition: ParsedMap, diagnostics: Diagnostics) -> None:
    for other in ("condition", "switch"):
        if transition.has_key("state_id") and transition.has_key(other):
            message = f"{state.label} has a {other!r}, so its 'state_id' is ignored."
            diagnostics.warn(
                Phase.FORM, transition.path_to("state_id"), transition.key_at("state_id"), message, "Remove 'state_id'."
            )


def _check_cases(state: ParsedMap, transition: ParsedMap, diagnostics: Diagnostics) -> None:
    switch: ParsedMap | None = transition.values.get("switch")
    if switch is not None and "cases" in switch.values and switch.content["cases"].content == []:
        message = f"The switch of {_lower(state)} has no cases: it always takes its default."
        advice = "Add a case, or write state_id."
        diagnostics.warn(Phase.FORM, switch.path_to("cases"), switch.at("cases"), message, advice)


def _lower(part: ParsedMap) -> str:
    return part.label[:1].lower() + part.label[1:]


def targets_of(transition: ParsedMap) -> Iterator[tuple[ParsedMap, str, int | None, str]]:
    """Yield every effective target: the map that holds it, its key, its index if the key holds a list, its name."""
    if "condition" in transition.values:
        yield from _named(transition.values["condition"], "then", "otherwise")
    if "switch" in transition.values:
        switch: ParsedMap = transition.values["switch"]
        for case in parts_in(switch, "cases"):
            yield from _named(case, "state_id")
        yield from _named(switch, "default")
    if not (transition.has_key("condition") or transition.has_key("switch")):
        yield from _named(transition, "state_id")
    for index, child in enumerate(_items(transition)):
        if isinstance(child, str):
            yield transition, "state_ids", index, child


def _named(part: ParsedMap, *names: str) -> Iterator[tuple[ParsedMap, str, int | None, str]]:
    for name in names:
        if name in part.values:
            yield part, name, None, part.values[name]


def _items(transition: ParsedMap) -> list[Any]:
    if "state_ids" not in transition.values:
        return []
    listed = transition.content["state_ids"].content
    return [child.content for child in listed] if isinstance(listed, list) else []
