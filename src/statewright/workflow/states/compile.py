"""Compilation of a workflow definition to a graph: each state becomes a node, and each transition a Send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statewright.graph import END, START
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.engine.lineage import Lineages
from statewright.workflow.states.engine.routing import Router, find_chain_exits
from statewright.workflow.states.engine.state import WorkflowInput, WorkflowResult, WorkflowState
from statewright.workflow.states.engine.state_node import StateNode, make_retry_policy
from statewright.workflow.states.handlers.scripted import FINAL_SUMMARY
from statewright.workflow.states.handlers.summaries import FinalSummary
from statewright.workflow.states.language.checks.transitions import find_reachable
from statewright.workflow.states.language.model import Definition, State, node_name
from statewright.workflow.states.language.transition import END_STATE, Next
from statewright.workflow.states.resources.handler_factory import HandlerFactory

MAX_ITEMS: Final = 1000
"""The default maximum number of branches into which a result may be split."""


def build_graph(definition: Definition, handlers: HandlerFactory, *, max_items: int = MAX_ITEMS) -> StateGraph:
    """Build the graph of a workflow, ready to be compiled."""
    graph = StateGraph(
        WorkflowState,
        input_schema=WorkflowInput,
        output_schema=WorkflowResult,
        answers_to="visits",  # an answer at a breakpoint becomes a visit; see `VisitLog`
        name=definition.name or "workflow",
    )
    summarizer, lineages = handlers.summarizer, Lineages()
    states, exits = definition.states_by_id, find_chain_exits(definition.states_by_id)
    final_node = _name_final_node(states) if summarizer is not None else None
    router = Router(states, max_items=max_items, final_node=final_node)
    reachable = find_reachable_states(definition)
    unreachable = {
        node_name(state.id): list_arrows(state.next) for state in states.values() if state.id not in reachable
    }
    for index, state in enumerate(definition.states):
        if state.id not in reachable:
            continue
        handler = handlers.make_handler(state)
        # The conversation of an assistant with tools retries its own steps. Retrying the whole state would also repeat
        # the steps that have succeeded.
        is_retried = not getattr(handler, "retries_internally", False)
        # "transparent": streams attribute the messages of the state's conversation, which is a subgraph, to the state.
        metadata: dict[str, Any] = {"drawn": list_arrows(state.next), "transparent": True}
        if index == 0 and unreachable:
            # Drawings show unreachable states too. They have no nodes, so the node of the first state lists them.
            metadata["unreachable"] = unreachable
        graph.add_node(
            node_name(state.id),
            StateNode(state, index, handler, router, lineages, before_run=handlers.connect_models),
            destinations=[node_name(target) for target in list_destinations(state, exits, final_node)],
            retry_policy=make_retry_policy(state.retry_policy, definition.retry_policy) if is_retried else None,
            metadata=metadata,
        )
    if summarizer is not None and final_node is not None:
        graph.add_node(final_node, FinalSummary(summarizer, lineages), metadata={"hidden": True})
    return graph.add_edge(START, node_name(definition.states[0].id))


def _name_final_node(states: Mapping[str, State]) -> str:
    """Return a name for the node of the final summary that is not the id of a state."""
    name = FINAL_SUMMARY
    while name in states:
        name += "_"
    return name


def list_destinations(state: State, exits: Mapping[str, Next | None], final_node: str | None) -> list[str]:
    """Return the possible targets of a state, including the exit of its chain, which is taken if there are no items.

    `exits` is the result of `find_chain_exits`. `final_node` is the name of the node that runs after all branches have
    ended, or None if there is no such node.
    """
    targets = dict.fromkeys(state.next.targets)
    if state.id in exits:
        transition = exits[state.id]
        targets.update(dict.fromkeys(transition.targets if transition is not None else (END_STATE,)))
    may_end = END_STATE in targets
    targets.pop(END_STATE, None)
    return [*targets, *([final_node] if may_end and final_node is not None else [])]


def find_reachable_states(definition: Definition) -> set[str]:
    """Return the ids of the states that a run can reach. `statewright check` warns about the others."""
    exits = find_chain_exits(definition.states_by_id)
    edges = {state.id: list_destinations(state, exits, None) for state in definition.states}
    return find_reachable(edges, [definition.states[0].id])


def compile_graph(graph: StateGraph, definition: Definition, **options: Any) -> CompiledGraph:
    """Compile the graph of a workflow with its breakpoints and limits."""
    breakpoints = [node_name(state.id) for state in definition.states if state.interrupt_before]
    app = graph.compile(interrupt_before=[name for name in breakpoints if name in graph.nodes], **options)
    limits = {"recursion_limit": definition.recursion_limit, "max_concurrency": definition.max_concurrency}
    return app.with_config(limits)


# -- drawings

Arrow = tuple[str, str, str]
"""Target, kind and label of a transition in a drawing."""
_MAX_LABEL: Final = 40
"""Maximum characters of a label."""


def list_arrows(transition: Next) -> list[Arrow]:
    """Return the arrows of a state for drawings, labelled as in the file."""
    if transition.branches:
        kind = "conditional"
        default = "otherwise" if transition.condition is not None else "default"
        labels = [_make_label(test.text) if test is not None else default for test, _ in transition.branches]
    else:
        kind = "plain"
        label = _make_label(f"each of {transition.iter_key}") if transition.iter_key is not None else ""
        labels = [label] * len(transition.targets)
    nodes = [END if target == END_STATE else node_name(target) for target in transition.targets]
    return [(node, kind, label) for node, label in zip(nodes, labels, strict=True)]


def _make_label(text: str) -> str:
    """Return a text as a label: on one line, and shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LABEL else line[: _MAX_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
