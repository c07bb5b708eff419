"""Compilation of a definition to a graph: a state becomes a node, a transition becomes a Send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statewright.graph import END, START
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.engine.lineage import Lineages
from statewright.workflow.states.engine.routing import Router, find_chain_exits
from statewright.workflow.states.engine.state import WorkflowInput, WorkflowResult, WorkflowState
from statewright.workflow.states.engine.state_node import StateNode, retry_policy
from statewright.workflow.states.handlers.scripted import FINAL_SUMMARY
from statewright.workflow.states.handlers.summaries import FinalSummary
from statewright.workflow.states.language.checks.transitions import find_reachable
from statewright.workflow.states.language.model import Definition, State, node_of
from statewright.workflow.states.language.transition import END_STATE, Next
from statewright.workflow.states.resources.handler_factory import HandlerFactory

MAX_ITEMS: Final = 1000
"""The default maximum number of branches into which a result may be split."""


def build_graph(definition: Definition, resources: HandlerFactory, *, max_items: int = MAX_ITEMS) -> StateGraph:
    """Build the graph of a workflow, ready to be compiled."""
    graph = StateGraph(
        WorkflowState,
        input_schema=WorkflowInput,
        output_schema=WorkflowResult,
        answers_to="visits",
        name=definition.name or "workflow",
    )
    summarizer, lineages = resources.summarizer, Lineages()
    states, exits = definition.states_by_id, find_chain_exits(definition.states_by_id)
    after = f"{FINAL_SUMMARY}{'_' if FINAL_SUMMARY in states else ''}" if summarizer is not None else None
    router = Router(states, max_items=max_items, after=after)
    reached = find_reached_states(definition)
    unreachable = {node_of(state.id): list_arrows(state.next) for state in states.values() if state.id not in reached}
    for index, state in enumerate(definition.states):
        if state.id not in reached:
            continue
        handler = resources.make_handler(state)
        # A conversation retries its own steps; a retry of the whole state would repeat what has succeeded.
        is_retried = not getattr(handler, "retries_internally", False)
        # Messages of the inner conversation are attributed to the state.
        metadata: dict[str, Any] = {"drawn": list_arrows(state.next), "transparent": True}
        if index == 0 and unreachable:  # shown in drawings, with the first state, which is always a node
            metadata["unreachable"] = unreachable
        graph.add_node(
            node_of(state.id),
            StateNode(state, index, handler, router, lineages, before_run=resources.connect_models),
            destinations=[node_of(target) for target in list_destinations(state, exits, after)],
            retry_policy=retry_policy(state.retry_policy, definition.retry_policy) if is_retried else None,
            metadata=metadata,
        )
    if summarizer is not None and after is not None:
        graph.add_node(after, FinalSummary(summarizer, lineages), metadata={"hidden": True})
    return graph.add_edge(START, node_of(definition.states[0].id))


def list_destinations(state: State, exits: Mapping[str, Next | None], after: str | None) -> list[str]:
    """Return the possible targets of a state, including the exit of its chain for an empty iteration.

    `exits` comes from `find_chain_exits`; `after` is the node that runs when all branches have ended, if there is one.
    """
    targets = dict.fromkeys(state.next.targets)
    if state.id in exits:
        transition = exits[state.id]
        targets.update(dict.fromkeys(transition.targets if transition is not None else (END_STATE,)))
    ends = END_STATE in targets
    targets.pop(END_STATE, None)
    return [*targets, *([after] if ends and after is not None else [])]


def find_reached_states(definition: Definition) -> set[str]:
    """Return the states that a run can reach. The check of the file warns about the others."""
    exits = find_chain_exits(definition.states_by_id)
    edges = {state.id: list_destinations(state, exits, None) for state in definition.states}
    return find_reachable(edges, [definition.states[0].id])


def compile_graph(graph: StateGraph, definition: Definition, **options: Any) -> CompiledGraph:
    """Compile the graph of a workflow with its breakpoints and limits."""
    breakpoints = [node_of(state.id) for state in definition.states if state.interrupt_before]
    app = graph.compile(interrupt_before=[name for name in breakpoints if name in graph.nodes], **options)
    limits = {"recursion_limit": definition.recursion_limit, "max_concurrency": definition.max_concurrency}
    return app.with_config(limits)


# -- drawings

Arrow = tuple[str, str, str]
"""Target, kind and label of a transition in a drawing."""
_MAX_LABEL: Final = 40
"""Maximum characters of a label."""


def list_arrows(transition: Next) -> list[Arrow]:
    """Return the arrows of a state for drawings, as its author wrote them."""
    if transition.branches:
        kind, default = "conditional", "otherwise" if transition.condition is not None else "default"
        labels = [_label(test.text) if test is not None else default for test, _ in transition.branches]
    else:
        kind, label = "plain", _label(f"each of {transition.iter_key}") if transition.iter_key is not None else ""
        labels = [label] * len(transition.targets)
    nodes = [END if target == END_STATE else node_of(target) for target in transition.targets]
    return [(node, kind, label) for node, label in zip(nodes, labels, strict=True)]


def _label(text: str) -> str:
    """Return a text as a label of one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LABEL else line[: _MAX_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
