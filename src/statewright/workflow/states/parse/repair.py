"""How to write what is refused in a transition: sentences with the author's own names."""

from __future__ import annotations

from collections.abc import Collection

from statewright.workflow.states.document import YamlNode, shortened
from statewright.workflow.states.findings import Diagnostics, Phase
from statewright.workflow.states.parse.form import Part


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
