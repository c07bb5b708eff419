"""What the tables cannot say about `next`: ways that are accepted, and do less than they seem to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.workflow.states.findings import Diagnostics, Phase
from statewright.workflow.states.parse.form import Part


def parts_in(part: Part, name: str) -> tuple[Part, ...]:
    """The parts in the list under a key that could be read."""
    listed: Any = part.values.get(name, ())
    return tuple(listed)


def check_transitions(workflow: Part, findings: Diagnostics) -> None:
    """Warn of a `state_id` that a condition or a switch makes idle, and of a switch without cases."""
    for state in parts_in(workflow, "states"):
        way: Part | None = state.values.get("next")
        if way is not None:
            _check_idle_target(state, way, findings)
            _check_cases(state, way, findings)


def _check_idle_target(state: Part, way: Part, findings: Diagnostics) -> None:
    for other in ("condition", "switch"):
        if way.given("state_id") and way.given(other):
            message = f"{state.label} has a {other!r}, so its 'state_id' is ignored."
            findings.warn(Phase.FORM, way.path_to("state_id"), way.key_at("state_id"), message, "Remove 'state_id'.")


def _check_cases(state: Part, way: Part, findings: Diagnostics) -> None:
    switch: Part | None = way.values.get("switch")
    if switch is not None and "cases" in switch.values and switch.content["cases"].content == []:
        message = f"The switch of {_lower(state)} has no cases: it always goes on at its default."
        advice = "Add a case, or write state_id."
        findings.warn(Phase.FORM, switch.path_to("cases"), switch.at("cases"), message, advice)


def _lower(part: Part) -> str:
    return part.label[:1].lower() + part.label[1:]


def targets_of(way: Part) -> Iterator[tuple[Part, str, int | None, str]]:
    """Every target that counts: the map that holds it, its key, its position where the key holds a list, its name."""
    if "condition" in way.values:
        yield from _named(way.values["condition"], "then", "otherwise")
    if "switch" in way.values:
        switch: Part = way.values["switch"]
        for case in parts_in(switch, "cases"):
            yield from _named(case, "state_id")
        yield from _named(switch, "default")
    if not (way.given("condition") or way.given("switch")):
        yield from _named(way, "state_id")
    for place, child in enumerate(_items(way)):
        if isinstance(child, str):
            yield way, "state_ids", place, child


def _named(part: Part, *names: str) -> Iterator[tuple[Part, str, int | None, str]]:
    for name in names:
        if name in part.values:
            yield part, name, None, part.values[name]


def _items(way: Part) -> list[Any]:
    if "state_ids" not in way.values:
        return []
    listed = way.content["state_ids"].content
    return [child.content for child in listed] if isinstance(listed, list) else []
