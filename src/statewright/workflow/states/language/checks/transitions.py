"""Checks of transitions: keys of `next` that have no effect, unreachable states, and states that cannot reach `end`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.model import Definition
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.transition import END_STATE
from statewright.workflow.states.language.yaml.nodes import Mark, Path, shorten


def check_transitions(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    """Warn about a `state_id` that a condition or a switch overrides, and about a switch without cases."""
    for state in workflow.parts("states"):
        for transition in state.parts("next"):
            _check_ignored_target(state, transition, diagnostics)
            for switch in transition.parts("switch"):
                _check_cases(state, switch, diagnostics)


def _check_ignored_target(state: ParsedMap, transition: ParsedMap, diagnostics: Diagnostics) -> None:
    for other in ("condition", "switch"):
        if transition.has_key("state_id") and transition.has_key(other):
            message = f"{state.label} has a {other!r}, so its 'state_id' is ignored."
            diagnostics.warn(Phase.FORM, *transition.key_location("state_id"), message, "Remove 'state_id'.")


def _check_cases(state: ParsedMap, switch: ParsedMap, diagnostics: Diagnostics) -> None:
    if "cases" in switch.values and switch.content["cases"].content == []:
        label = state.label[:1].lower() + state.label[1:]
        message = f"The switch of {label} has no cases, so it always selects its default."
        diagnostics.warn(Phase.FORM, *switch.location("cases"), message, "Add a case, or write state_id.")


Target = tuple[str, Path, Mark]
"""The name of a target, and the path and position at which it is written."""


def iter_targets(transition: ParsedMap) -> Iterator[Target]:
    """Yield the targets of a transition, except a `state_id` that a condition or a switch overrides."""
    for condition in transition.parts("condition"):
        yield from _iter_targets_in(condition, "then", "otherwise")
    for switch in transition.parts("switch"):
        for case in switch.parts("cases"):
            yield from _iter_targets_in(case, "state_id")
        yield from _iter_targets_in(switch, "default")
    if not (transition.has_key("condition") or transition.has_key("switch")):
        yield from _iter_targets_in(transition, "state_id")
    if "state_ids" in transition.values and isinstance(items := transition.content["state_ids"].content, list):
        for index, item in enumerate(items):
            if isinstance(item.content, str):
                yield item.content, (*transition.path_to("state_ids"), index), item.at


def _iter_targets_in(parsed_map: ParsedMap, *keys: str) -> Iterator[Target]:
    for key in keys:
        if key in parsed_map.values:
            yield parsed_map.values[key], *parsed_map.location(key)


# -- reachability

_MAX_LISTED: Final = 10
"""The maximum number of states that a warning names."""


def check_graph(definition: Definition, diagnostics: Diagnostics, path: Path = ("states",)) -> None:
    """Warn about unreachable states, and about states that cannot reach `end`. Loops are allowed.

    `path` is the path of the states in the file.
    """
    edges = {state.id: state.next.targets for state in definition.states}
    reachable = find_reachable(edges, [definition.states[0].id])
    for index, state in enumerate(definition.states):
        if state.id not in reachable:
            message = f"State {shorten(state.id)!r} cannot be reached: no reachable state leads to it."
            advice = "Name it in the next of another state, or remove it."
            diagnostics.warn(Phase.GRAPH, (*path, index), state.at, message, advice)
    endless_ids = reachable - find_reachable(_reverse_edges(edges), [END_STATE])
    endless_states = [(index, state) for index, state in enumerate(definition.states) if state.id in endless_ids]
    if endless_states:  # a single warning names all of them
        index, first = endless_states[0]
        names = ", ".join(shorten(state.id) for _, state in endless_states[:_MAX_LISTED])
        more = f" and {len(endless_states) - _MAX_LISTED} more" if len(endless_states) > _MAX_LISTED else ""
        message = f"{END_STATE!r} cannot be reached from {names}{more}: the run stops only at its recursion_limit."
        advice = f"Let one of them lead to {END_STATE!r}, for example in a condition."
        diagnostics.warn(Phase.GRAPH, (*path, index), first.at, message, advice)


def find_reachable(edges: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """Return the starting nodes, and all nodes that can be reached from them along the edges."""
    seen = set(starts)
    pending = list(seen)
    while pending:
        for target in edges.get(pending.pop(), ()):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _reverse_edges(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the graph with all edges reversed."""
    reversed_edges: dict[str, list[str]] = {}
    for source, targets in edges.items():
        for target in targets:
            reversed_edges.setdefault(target, []).append(source)
    return reversed_edges
