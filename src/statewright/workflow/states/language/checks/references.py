"""Checks of ids and the references to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from statewright.workflow.states.language.checks.transitions import iter_targets
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.model import node_name
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.transition import END_STATE, RESERVED
from statewright.workflow.states.language.yaml.nodes import shorten

NODE_KINDS: Final = (
    "transform_node",
    "state_processor_node",
    "generate_documents_tree",
    "summarize_conversation_node",
    "result_finalizer_node",
)
"""The kinds of custom nodes that the language defines."""

UNSUPPORTED_KINDS: Final = {
    "bedrock_flow_node": (
        "runs a flow on AWS, which is not supported",
        "Register a node of this kind that runs it, or call the flow from a tool.",
    ),
    "supervisor_node": (
        "chooses the next assistant by itself, as in the mode Autonomous, which is not supported",
        "Let a state decide, with a switch in its next.",
    ),
}
"""Kinds that only other implementations of the language support: the end of a sentence that says so, and advice."""

_REFERENCES: Final = {
    "assistant_id": ("assistants", "assistant"),
    "tool_id": ("tools", "tool"),
    "custom_node_id": ("custom_nodes", "custom node"),
}
"""For each key of a state that refers to an id: the list that contains the id, and the noun for an item of the list."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one list."""

    by_id: dict[str, ParsedMap]
    """The items by id. For a duplicate id, the first item."""
    is_complete: bool
    """True if every item has an id. Otherwise an unknown id may belong to an item that could not be read."""
    misspelt_key: str | None = None
    """An unknown key of the workflow that is probably the misspelt key of this list; None if there is none."""


def check_references(workflow: ParsedMap, node_kinds: Collection[str], diagnostics: Diagnostics) -> None:
    """Report duplicate ids, and references to unknown ids."""
    ids = {
        name: _collect_ids(workflow, name, diagnostics) for name in ("assistants", "tools", "custom_nodes", "states")
    }
    targets = {**ids["states"].by_id, END_STATE: None}
    _check_kinds(workflow, node_kinds, diagnostics)
    _check_reserved(ids["states"], diagnostics)
    misspelt_keys: set[str] = set()
    for state in workflow.parts("states"):
        misspelt_keys |= _check_references_of(state, ids, diagnostics)
        _check_targets(state, ids["states"], targets, diagnostics)
    for key in misspelt_keys:
        message = f"{workflow.subject} has no key {shorten(key)!r}, and states refer to its contents."
        advice = f"Write it as {diagnostics.find_similar_name(key, workflow.schema.current_names)!r}."
        diagnostics.error(Phase.FORM, *workflow.key_location(key), message, advice)


def _collect_ids(workflow: ParsedMap, name: str, diagnostics: Diagnostics) -> Ids:
    by_id: dict[str, ParsedMap] = {}
    items = workflow.parts(name)
    for item in items:
        item_id = item.values.get("id")
        if item_id in by_id:
            message = (
                f"Two {name.replace('_', ' ')} have the id {shorten(item_id)!r}: "
                f"the first one is on line {by_id[item_id].at('id').line}."
            )
            diagnostics.error(Phase.REFERENCES, *item.location("id"), message, "Give one of them another id.")
        elif item_id is not None:
            by_id[item_id] = item
    return Ids(by_id, _is_complete(workflow, name, items), _find_misspelt_key(workflow, name, diagnostics))


def _find_misspelt_key(workflow: ParsedMap, name: str, diagnostics: Diagnostics) -> str | None:
    """Return an unknown key that is probably a misspelling of `name`; None if `name` is present."""
    if workflow.has_key(name):
        return None
    unknown = [key for key in workflow.content if key not in workflow.schema.by_name]
    return next(
        (key for key in unknown if diagnostics.find_similar_name(key, workflow.schema.current_names) == name), None
    )


def _is_complete(workflow: ParsedMap, name: str, items: tuple[ParsedMap, ...]) -> bool:
    """Return whether all items of a list could be read, with their ids."""
    if not workflow.has_key(name):
        return True
    nodes = workflow.content[name].content
    return isinstance(nodes, list) and len(items) == len(nodes) and all("id" in item.values for item in items)


def _check_kinds(workflow: ParsedMap, node_kinds: Collection[str], diagnostics: Diagnostics) -> None:
    for node in workflow.parts("custom_nodes"):
        name = "custom_node_id" if node.has_key("custom_node_id") else "id"
        kind = node.values.get(name)
        if kind is None or kind in node_kinds:
            continue
        location = node.location(name)
        if kind in UNSUPPORTED_KINDS:
            reason, advice = UNSUPPORTED_KINDS[kind]
            diagnostics.error(Phase.REFERENCES, *location, f"{node.label}: {kind!r} {reason}.", advice)
            continue
        origin = "" if name == "custom_node_id" else " (its id, as it has no custom_node_id)"
        message = f"{node.label} has the kind {shorten(kind)!r}{origin}, which is not supported."
        diagnostics.error(Phase.REFERENCES, *location, message, diagnostics.make_hint(kind, node_kinds, label="Kinds"))


def _check_reserved(states: Ids, diagnostics: Diagnostics) -> None:
    """Report ids that are reserved, and different ids that lead to the same node name."""
    nodes: dict[str, str] = {}
    for state_id, state in states.by_id.items():
        other = nodes.setdefault(node_name(state_id), state_id)
        if state_id == END_STATE:
            message = f"A state has the id {END_STATE!r}, which is reserved for the end of the workflow."
        elif state_id in RESERVED:
            message = f"{state.label} has an id that is reserved for the engine."
        elif other != state_id:
            message = f"{state.label} has an id that cannot be distinguished from {shorten(other)!r}."
        else:
            continue
        diagnostics.error(Phase.REFERENCES, *state.location("id"), message, "Give it another id.")


def _check_references_of(state: ParsedMap, ids: dict[str, Ids], diagnostics: Diagnostics) -> set[str]:
    """Report references of a state to unknown ids.

    If the list that should contain an id is missing because its key is misspelt, return the misspelt key instead.
    """
    misspelt_keys: set[str] = set()
    for name, (list_name, noun) in _REFERENCES.items():
        reference = state.values.get(name)
        target_ids = ids[list_name]
        if reference is None or reference in target_ids.by_id or not target_ids.is_complete:
            continue
        if target_ids.misspelt_key is not None:
            misspelt_keys.add(target_ids.misspelt_key)
            continue
        message = f"{state.label}: the {noun} {shorten(reference)!r} does not exist."
        advice = _suggest_other_key(reference, ids) or diagnostics.make_hint(
            reference, target_ids.by_id, label=list_name.replace("_", " ").capitalize()
        )
        diagnostics.error(Phase.REFERENCES, *state.location(name), message, advice)
    return misspelt_keys


def _suggest_other_key(reference: str, ids: dict[str, Ids]) -> str:
    """Return advice for an id that belongs to another list."""
    for name, (list_name, noun) in _REFERENCES.items():
        if reference in ids[list_name].by_id:
            return f"There is a {noun} with this id. Did you mean {name!r}?"
    return ""


def _check_targets(state: ParsedMap, states: Ids, targets: Collection[str], diagnostics: Diagnostics) -> None:
    """Report transitions to unknown states, and an empty `iter_key`."""
    for transition in state.parts("next"):
        for target, path, at in iter_targets(transition):
            if target != END_STATE and target not in states.by_id and states.is_complete:
                message = f"{state.label} leads to {shorten(target)!r}, which is not a state."
                advice = diagnostics.make_hint(target, targets, label="States")
                diagnostics.error(Phase.REFERENCES, path, at, message, advice)
        if transition.values.get("iter_key") == "":
            advice = (
                "Write the key of the list in the result, a pointer such as /data/items, or '.' for the whole result."
            )
            message = f"{state.label} has an empty 'iter_key'."
            diagnostics.error(Phase.REFERENCES, *transition.location("iter_key"), message, advice)
