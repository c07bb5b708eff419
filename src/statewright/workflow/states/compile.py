"""A definition made into a graph: a state is a node, a transition is a Send."""

from __future__ import annotations

from typing import Any, Final

from statewright.graph import START
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.drawn import arrows
from statewright.workflow.states.execution import StateNode
from statewright.workflow.states.final_summary import FinalSummary
from statewright.workflow.states.lineage import Lineages
from statewright.workflow.states.model import END_STATE, Definition
from statewright.workflow.states.performers.scripted import FINAL_SUMMARY
from statewright.workflow.states.resources import Resources
from statewright.workflow.states.retries import retry_policy
from statewright.workflow.states.routing import Router
from statewright.workflow.states.state import WorkflowInput, WorkflowResult, WorkflowState

MAX_ITEMS: Final = 1000
"""Into how many branches a result may be split, if nobody says otherwise."""


def graph_of(definition: Definition, resources: Resources, *, max_items: int = MAX_ITEMS) -> StateGraph:
    """The graph of a workflow, ready to be compiled."""
    graph = StateGraph(
        WorkflowState,
        input_schema=WorkflowInput,
        output_schema=WorkflowResult,
        answers_to="visits",
        name=definition.name or "workflow",
    )
    summarizer, lineages = resources.summarizer, Lineages()
    states = {state.id: state for state in definition.states}
    after = f"{FINAL_SUMMARY}{'_' if FINAL_SUMMARY in states else ''}" if summarizer is not None else None
    router = Router(states, node_of, max_items=max_items, after=after)
    reachable = reached(definition)
    for place, state in enumerate(definition.states):
        if state.id not in reachable:
            continue
        performer = resources.performer(state)
        # A conversation tries its own steps again: what it has given up on is not begun anew.
        tries_again = not getattr(performer, "tries_again_itself", False)
        node = StateNode(state, place, performer, router, lineages, before=resources.connect_models)
        graph.add_node(
            node_of(state.id),
            node,
            destinations=[node_of(one) for one in destinations(definition, state.id, after)],
            retry_policy=retry_policy(state.retry_policy, definition.retry_policy) if tries_again else None,
            # What is said in a conversation counts as said by its state.
            metadata={"drawn": arrows(state.next, node_of), "transparent": True},
        )
    if summarizer is not None and after is not None:
        graph.add_node(after, FinalSummary(summarizer, lineages), metadata={"hidden": True})
    return graph.add_edge(START, node_of(definition.states[0].id))


def node_of(state_id: str) -> str:
    """The node of a state: its id, with signs that look alike for the two that separate the parts of namespaces."""
    return state_id.translate(_ALIKE)


_ALIKE: Final = str.maketrans({":": "\N{MODIFIER LETTER COLON}", "|": "\N{DIVIDES}"})


def destinations(definition: Definition, state_id: str, after: str | None) -> list[str]:
    """Where a state may lead: its targets, and where its chain leads if there is nothing to iterate over."""
    state = definition.state(state_id)
    found = dict.fromkeys(state.next.targets)
    way, seen = state.next, {state_id}
    while way.iter_key is not None and way.state_id not in (None, END_STATE) and way.state_id not in seen:
        seen.add(way.state_id or "")
        way = definition.state(way.state_id or "").next
        found.update(dict.fromkeys(way.targets))
    ends = END_STATE in found
    found.pop(END_STATE, None)
    return [*found, *([after] if ends and after is not None else [])]


def reached(definition: Definition) -> set[str]:
    """The states to which any transition leads; others are found when a file is checked, and never run."""
    found: set[str] = set()
    ahead = [definition.states[0].id]
    while ahead:
        state_id = ahead.pop()
        if state_id not in found:
            found.add(state_id)
            ahead.extend(destinations(definition, state_id, None))
    return found


def compiled(graph: StateGraph, definition: Definition, **options: Any) -> CompiledGraph:
    """The graph of a workflow, compiled: with its breakpoints and its limits."""
    stops = [node_of(state.id) for state in definition.states if state.interrupt_before]
    app = graph.compile(interrupt_before=[name for name in stops if name in graph.nodes], **options)
    limits = {"recursion_limit": definition.recursion_limit, "max_concurrency": definition.max_concurrency}
    return app.with_config(limits)
