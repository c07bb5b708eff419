"""Checks of `next` beyond its keys, and its targets."""

from __future__ import annotations

from collections.abc import Iterator

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.yaml.nodes import Mark, Path


def check_transitions(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    """Warn about a `state_id` that a condition or a switch overrides, and about a switch without cases."""
    for state in workflow.parts("states"):
        for transition in state.parts("next"):
            _check_idle_target(state, transition, diagnostics)
            for switch in transition.parts("switch"):
                _check_cases(state, switch, diagnostics)


def _check_idle_target(state: ParsedMap, transition: ParsedMap, diagnostics: Diagnostics) -> None:
    for other in ("condition", "switch"):
        if transition.has_key("state_id") and transition.has_key(other):
            message = f"{state.label} has a {other!r}, so its 'state_id' is ignored."
            diagnostics.warn(Phase.FORM, *transition.key_location("state_id"), message, "Remove 'state_id'.")


def _check_cases(state: ParsedMap, switch: ParsedMap, diagnostics: Diagnostics) -> None:
    if "cases" in switch.values and switch.content["cases"].content == []:
        label = state.label[:1].lower() + state.label[1:]
        message = f"The switch of {label} has no cases: it always takes its default."
        diagnostics.warn(Phase.FORM, *switch.location("cases"), message, "Add a case, or write state_id.")


Target = tuple[str, Path, Mark]
"""The name of a target, and where it is written."""


def targets_of(transition: ParsedMap) -> Iterator[Target]:
    """Yield every effective target."""
    for condition in transition.parts("condition"):
        yield from _named(condition, "then", "otherwise")
    for switch in transition.parts("switch"):
        for case in switch.parts("cases"):
            yield from _named(case, "state_id")
        yield from _named(switch, "default")
    if not (transition.has_key("condition") or transition.has_key("switch")):
        yield from _named(transition, "state_id")
    if "state_ids" in transition.values and isinstance(items := transition.content["state_ids"].content, list):
        for index, item in enumerate(items):
            if isinstance(item.content, str):
                yield item.content, (*transition.path_to("state_ids"), index), item.at


def _named(part: ParsedMap, *keys: str) -> Iterator[Target]:
    for key in keys:
        if key in part.values:
            yield part.values[key], *part.location(key)
