"""Ids: each names one thing, and whatever refers to one finds it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from statewright.graph import END, START, STOP
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.map_schema import Part
from statewright.workflow.states.language.model import END_STATE, node_of
from statewright.workflow.states.language.transitions import parts_in, targets_of
from statewright.workflow.states.language.yaml.nodes import shortened

NODE_KINDS: Final = (
    "transform_node",
    "state_processor_node",
    "generate_documents_tree",
    "summarize_conversation_node",
    "result_finalizer_node",
)
"""The kinds of custom nodes that the language has."""

RESERVED: Final = (START, END, STOP)
"""Names of nodes that the engine has for itself."""

_UNSUPPORTED_KINDS: Final = {
    "bedrock_flow_node": (
        "calls a flow in the cloud of Amazon, which Statewright cannot do",
        "Call the flow from a tool.",
    ),
    "supervisor_node": (
        "belongs to the mode Autonomous, which is not supported",
        "Let a state decide, with a switch in its next.",
    ),
}

_WORKERS: Final = {
    "assistant_id": ("assistants", "assistant"),
    "tool_id": ("tools", "tool"),
    "custom_node_id": ("custom_nodes", "custom node"),
}
"""What a state refers to: the list in which it is, and what one of them is called."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one list."""

    first: dict[str, Part]
    is_complete: bool
    """Whether every item has one; where not, an unknown id may be that of an item that could not be read."""
    misspelt: str | None = None
    """A key of the workflow that was probably meant to be the list, which is not there."""


def check_references(workflow: Part, node_kinds: Collection[str], findings: Diagnostics) -> None:
    """Note ids that stand for two things, or for none."""
    ids = {name: _ids(workflow, name, findings) for name in ("assistants", "tools", "custom_nodes", "states")}
    targets = {**ids["states"].first, END_STATE: None}
    _check_kinds(workflow, node_kinds, findings)
    _check_reserved(ids["states"], findings)
    misspelt: set[str] = set()
    for state in parts_in(workflow, "states"):
        misspelt |= _check_worker(state, ids, findings)
        _check_way(state, ids["states"], targets, findings)
    for key in misspelt:
        message = f"{workflow.subject} has no key {shortened(key)!r}, and states refer to what is in it."
        advice = f"Write it as {findings.near_miss(key, workflow.form.current)!r}."
        findings.error(Phase.FORM, workflow.path_to(key), workflow.key_at(key), message, advice)


def _ids(workflow: Part, name: str, findings: Diagnostics) -> Ids:
    first: dict[str, Part] = {}
    parts = parts_in(workflow, name)
    for part in parts:
        identity = part.values.get("id")
        if identity in first:
            message = (
                f"Two {name.replace('_', ' ')} have the id {shortened(identity)!r}: "
                f"the other one is in line {first[identity].at('id').line}."
            )
            findings.error(Phase.REFERENCES, part.path_to("id"), part.at("id"), message, "Give one of them another id.")
        elif identity is not None:
            first[identity] = part
    return Ids(first, _is_complete(workflow, name, parts), _misspelt(workflow, name, findings))


def _misspelt(workflow: Part, name: str, findings: Diagnostics) -> str | None:
    if workflow.given(name):
        return None
    unknown = [key for key in workflow.content if key not in workflow.form.by_name]
    return next((key for key in unknown if findings.near_miss(key, workflow.form.current) == name), None)


def _is_complete(workflow: Part, name: str, parts: tuple[Part, ...]) -> bool:
    if not workflow.given(name):
        return True
    listed = workflow.content[name].content
    return isinstance(listed, list) and len(parts) == len(listed) and all("id" in part.values for part in parts)


def _check_kinds(workflow: Part, node_kinds: Collection[str], findings: Diagnostics) -> None:
    for node in parts_in(workflow, "custom_nodes"):
        name = "custom_node_id" if node.given("custom_node_id") else "id"
        kind = node.values.get(name)
        if kind is None or kind in node_kinds:
            continue
        where = node.path_to(name), node.at(name)
        if kind in _UNSUPPORTED_KINDS:
            reason, advice = _UNSUPPORTED_KINDS[kind]
            findings.error(Phase.REFERENCES, *where, f"{node.label}: {kind!r} {reason}.", advice)
            continue
        taken = "" if name == "custom_node_id" else ", and no custom_node_id"
        message = f"{node.label} has the kind {shortened(kind)!r}{taken}, which is not known."
        findings.error(Phase.REFERENCES, *where, message, findings.hint(kind, node_kinds, noun="Kinds"))


def _check_reserved(states: Ids, findings: Diagnostics) -> None:
    """Note ids that the engine has for itself, and those that it cannot tell apart."""
    nodes: dict[str, str] = {}
    for identity, state in states.first.items():
        other = nodes.setdefault(node_of(identity), identity)
        if identity == END_STATE:
            message = f"A state has the id {END_STATE!r}, which stands for the end of the workflow."
        elif identity in RESERVED:
            message = f"{state.label} has an id that is reserved for the engine."
        elif other != identity:
            message = f"{state.label} has an id that the engine cannot tell from that of {shortened(other)!r}."
        else:
            continue
        findings.error(Phase.REFERENCES, state.path_to("id"), state.at("id"), message, "Give it another id.")


def _check_worker(state: Part, ids: dict[str, Ids], findings: Diagnostics) -> set[str]:
    """Note a reference to nothing. Return the misspelt names of lists in which the reference may be found."""
    misspelt: set[str] = set()
    for name, (listed, noun) in _WORKERS.items():
        wanted = state.values.get(name)
        known = ids[listed]
        if wanted is None or wanted in known.first or not known.is_complete:
            continue
        if known.misspelt is not None:
            misspelt.add(known.misspelt)
            continue
        message = f"{state.label}: there is no {noun} {shortened(wanted)!r}."
        advice = _elsewhere(wanted, ids) or findings.hint(
            wanted, known.first, noun=listed.replace("_", " ").capitalize()
        )
        findings.error(Phase.REFERENCES, state.path_to(name), state.at(name), message, advice)
    return misspelt


def _elsewhere(wanted: str, ids: dict[str, Ids]) -> str:
    """What to write for an id of something else."""
    for name, (listed, noun) in _WORKERS.items():
        if wanted in ids[listed].first:
            return f"There is a {noun} of this id: did you mean {name!r}?"
    return ""


def _check_way(state: Part, states: Ids, targets: Collection[str], findings: Diagnostics) -> None:
    way: Part | None = state.values.get("next")
    if way is None:
        return
    for part, name, place, target in targets_of(way):
        if target != END_STATE and target not in states.first and states.is_complete:
            path = part.path_to(name) if place is None else (*part.path_to(name), place)
            listed: Any = part.content[name].content
            at = part.at(name) if place is None else listed[place].at
            message = f"{state.label} leads to {shortened(target)!r}: there is no such state."
            advice = findings.hint(target, targets, noun="States")
            findings.error(Phase.REFERENCES, path, at, message, advice)
    if way.values.get("iter_key") == "":
        message = f"{state.label} has an empty 'iter_key'."
        advice = "Write the key of the list in the result, a pointer such as /data/items, or '.' for the whole result."
        findings.error(Phase.REFERENCES, way.path_to("iter_key"), way.at("iter_key"), message, advice)
