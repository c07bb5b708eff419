"""What the tables cannot say about `next`: ways that are accepted, and do less than they seem to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.map_schema import Part
from statewright.workflow.states.language.yaml.nodes import YamlNode, shortened


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


# -- How to write what is refused in a transition: sentences with the author's own names.


def note_flat_condition(part: Part, findings: Diagnostics) -> Collection[str]:
    """Note a condition that is a text with `then` and `else` beside it. The answer is the keys that it spoils."""
    condition = part.content.get("condition")
    if condition is None or not isinstance(condition.content, str):
        return ()
    beside = [name for name in ("then", "otherwise", "else") if name in part.content]
    then = _word(part.content.get("then"), "the_state_if_true")
    otherwise = _word(part.content.get("otherwise", part.content.get("else")), "the_state_if_false")
    expression = shortened(condition.content)
    findings.error(
        Phase.FORM,
        part.path_to("condition"),
        condition.at,
        "'condition' is a text here, and must be a map with the keys expression, then and otherwise.",
        f'Write condition: {{expression: "{expression}", then: {then}, otherwise: {otherwise}}}.',
    )
    return ("condition", *beside)


def _word(written: YamlNode | None, default: str) -> str:
    return shortened(written.content) if written is not None and isinstance(written.content, str) else default


def split_condition(part: Part) -> str:
    """How to make two states of one whose `next` has a condition and an iter_key."""
    condition: Part | None = part.values.get("condition")
    expression, target, otherwise = (
        shortened(str(condition.values.get(name, "...") if condition is not None else "..."))
        for name in ("expression", "then", "otherwise")
    )
    way = f'condition: {{expression: "{expression}", then: pick_items, otherwise: {otherwise}}}'
    return _split(part, way, target)


def split_switch(part: Part) -> str:
    """How to make two states of one whose `next` has a switch and an iter_key."""
    switch: Part | None = part.values.get("switch")
    cases: tuple[Part, ...] = switch.values.get("cases", ()) if switch is not None else ()
    target = shortened(str(cases[0].values.get("state_id", "..."))) if cases else "..."
    return _split(part, "switch: (as it is, with pick_items in place of that target)", target)


def _split(part: Part, way: str, target: str) -> str:
    key = shortened(str(part.values.get("iter_key", "items")))
    return (
        f"Split it into two states: this one decides, with next: {{{way}}}; a new state 'pick_items' iterates, with "
        f"next: {{state_id: {target}, iter_key: {key}}}. The result of the new state must hold {key!r}: a custom "
        f"node of kind transform_node that extracts it from the context does."
    )
