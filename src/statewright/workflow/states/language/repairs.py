"""Advice for invalid combinations of keys in `next`, in the author's own names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.yaml.nodes import YamlNode, shorten


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
        *part.location("condition"),
        "'condition' is a text here, and must be a map with the keys expression, then and otherwise.",
        f'Write condition: {{expression: "{expression}", then: {then}, otherwise: {otherwise}}}.',
    )
    return ("condition", *beside)


def _word(written: YamlNode | None, default: str) -> str:
    return shorten(written.content) if written is not None and isinstance(written.content, str) else default


def split_condition(part: ParsedMap) -> str:
    """Return how to split a state whose `next` has a condition and an iter_key."""
    values: dict[str, Any] = next((condition.values for condition in part.parts("condition")), dict[str, Any]())
    expression, target, otherwise = (shorten(values.get(key, "...")) for key in ("expression", "then", "otherwise"))
    transition = f'condition: {{expression: "{expression}", then: pick_items, otherwise: {otherwise}}}'
    return _split(part, transition, target)


def split_switch(part: ParsedMap) -> str:
    """Return how to split a state whose `next` has a switch and an iter_key."""
    cases = [case for switch in part.parts("switch") for case in switch.parts("cases")]
    target = shorten(cases[0].values.get("state_id", "...")) if cases else "..."
    return _split(part, "switch: (as it is, with pick_items in place of that target)", target)


def _split(part: ParsedMap, transition: str, target: str) -> str:
    key = shorten(part.values.get("iter_key", "items"))
    return (
        f"Split it into two states: this one decides, with next: {{{transition}}}; a new state 'pick_items' iterates, "
        f"with next: {{state_id: {target}, iter_key: {key}}}. The result of the new state must hold {key!r}: a custom "
        f"node of kind transform_node that extracts it from the context does."
    )
