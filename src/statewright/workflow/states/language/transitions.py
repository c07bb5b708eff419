"""Checks of `next` beyond the tables of the grammar, and advice for invalid combinations in the author's own names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.map_schema import ParsedMap
from statewright.workflow.states.language.yaml.nodes import YamlNode, shorten


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


# -- advice for invalid combinations of keys


def note_flat_condition(part: ParsedMap, diagnostics: Diagnostics) -> Collection[str]:
    """Report a condition that is a text with `then` and `else` next to it. Return the keys that it covers."""
    condition = part.content.get("condition")
    if condition is None or not isinstance(condition.content, str):
        return ()
    beside = [name for name in ("then", "otherwise", "else") if name in part.content]
    then = _word(part.content.get("then"), "the_state_if_true")
    otherwise = _word(part.content.get("otherwise", part.content.get("else")), "the_state_if_false")
    expression = shorten(condition.content)
    diagnostics.error(
        Phase.FORM,
        part.path_to("condition"),
        condition.at,
        "'condition' is a text here, and must be a map with the keys expression, then and otherwise.",
        f'Write condition: {{expression: "{expression}", then: {then}, otherwise: {otherwise}}}.',
    )
    return ("condition", *beside)


def _word(written: YamlNode | None, default: str) -> str:
    return shorten(written.content) if written is not None and isinstance(written.content, str) else default


def split_condition(part: ParsedMap) -> str:
    """Return how to split a state whose `next` has a condition and an iter_key."""
    condition: ParsedMap | None = part.values.get("condition")
    expression, target, otherwise = (
        shorten(str(condition.values.get(name, "...") if condition is not None else "..."))
        for name in ("expression", "then", "otherwise")
    )
    transition = f'condition: {{expression: "{expression}", then: pick_items, otherwise: {otherwise}}}'
    return _split(part, transition, target)


def split_switch(part: ParsedMap) -> str:
    """Return how to split a state whose `next` has a switch and an iter_key."""
    switch: ParsedMap | None = part.values.get("switch")
    cases: tuple[ParsedMap, ...] = switch.values.get("cases", ()) if switch is not None else ()
    target = shorten(str(cases[0].values.get("state_id", "..."))) if cases else "..."
    return _split(part, "switch: (as it is, with pick_items in place of that target)", target)


def _split(part: ParsedMap, transition: str, target: str) -> str:
    key = shorten(str(part.values.get("iter_key", "items")))
    return (
        f"Split it into two states: this one decides, with next: {{{transition}}}; a new state 'pick_items' iterates, "
        f"with next: {{state_id: {target}, iter_key: {key}}}. The result of the new state must hold {key!r}: a custom "
        f"node of kind transform_node that extracts it from the context does."
    )
