"""The transitions of a state as they are drawn: those that its author wrote, with what decides between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from statewright.graph import END, START
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.engine.lineage import Lineages
from statewright.workflow.states.engine.retries import retry_policy
from statewright.workflow.states.engine.routing import Router, chain_exits
from statewright.workflow.states.engine.state import WorkflowInput, WorkflowResult, WorkflowState
from statewright.workflow.states.engine.state_node import StateNode
from statewright.workflow.states.handlers.scripted import FINAL_SUMMARY
from statewright.workflow.states.handlers.summaries import FinalSummary
from statewright.workflow.states.language.graph import reachable
from statewright.workflow.states.language.model import END_STATE, Definition, Next, State, node_of
from statewright.workflow.states.resources.handler_factory import Resources

LONGEST = 40
"""Characters of a label."""
Arrow = tuple[str, str, str]
"""Where it leads, of which kind it is, and what stands beside it."""


def arrows(way: Next, node_of: Callable[[str], str]) -> list[Arrow]:
    """The arrows of a state; `node_of` gives the node of a state."""
    return [(END if target == END_STATE else node_of(target), kind, label) for target, kind, label in _arrows(way)]


def _arrows(way: Next) -> Iterator[Arrow]:
    if way.condition is not None:
        yield way.condition.then, "conditional", _label(way.condition.expression.text)
        yield way.condition.otherwise, "conditional", "otherwise"
    elif way.switch is not None:
        for case in way.switch.cases:
            yield case.state_id, "conditional", _label(case.condition.text)
        yield way.switch.default, "conditional", "default"
    else:
        label = f"each of {way.iter_key}" if way.iter_key is not None else ""
        for target in way.targets:
            yield target, "plain", _label(label)


def _label(text: str) -> str:
    """A label of one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


# -- A definition made into a graph: a state is a node, a transition is a Send.

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
    states, exits = definition.states_by_id, chain_exits(definition.states_by_id)
    after = f"{FINAL_SUMMARY}{'_' if FINAL_SUMMARY in states else ''}" if summarizer is not None else None
    router = Router(states, node_of, max_items=max_items, after=after)
    running = reached(definition)
    idle = [state for state in definition.states if state.id not in running]
    unreachable = {"unreachable": {node_of(state.id): arrows(state.next, node_of) for state in idle}} if idle else {}
    for place, state in enumerate(definition.states):
        if state.id not in running:
            continue
        performer = resources.performer(state)
        # A conversation tries its own steps again: what it has given up on is not begun anew.
        tries_again = not getattr(performer, "tries_again_itself", False)
        node = StateNode(state, place, performer, router, lineages, before=resources.connect_models)
        graph.add_node(
            node_of(state.id),
            node,
            destinations=[node_of(one) for one in destinations(state, exits, after)],
            retry_policy=retry_policy(state.retry_policy, definition.retry_policy) if tries_again else None,
            # What is said in a conversation counts as said by its state.
            metadata={"drawn": arrows(state.next, node_of), "transparent": True, **(unreachable if not place else {})},
        )
    if summarizer is not None and after is not None:
        graph.add_node(after, FinalSummary(summarizer, lineages), metadata={"hidden": True})
    return graph.add_edge(START, node_of(definition.states[0].id))


def destinations(state: State, exits: Mapping[str, Next | None], after: str | None) -> list[str]:
    """Where a state may lead: its targets, and where its chain leads if there is nothing to iterate over.

    `exits` are those of `chain_exits`; `after` is the node that comes when all branches have ended, if there is one.
    """
    targets = dict.fromkeys(state.next.targets)
    if state.id in exits:
        way = exits[state.id]
        targets.update(dict.fromkeys(way.targets if way is not None else (END_STATE,)))
    ends = END_STATE in targets
    targets.pop(END_STATE, None)
    return [*targets, *([after] if ends and after is not None else [])]


def reached(definition: Definition) -> set[str]:
    """The states to which any transition leads; others are found when a file is checked, and never run."""
    exits = chain_exits(definition.states_by_id)
    ways = {state.id: destinations(state, exits, None) for state in definition.states}
    return reachable(ways, [definition.states[0].id])


def compiled(graph: StateGraph, definition: Definition, **options: Any) -> CompiledGraph:
    """The graph of a workflow, compiled: with its breakpoints and its limits."""
    stops = [node_of(state.id) for state in definition.states if state.interrupt_before]
    app = graph.compile(interrupt_before=[name for name in stops if name in graph.nodes], **options)
    limits = {"recursion_limit": definition.recursion_limit, "max_concurrency": definition.max_concurrency}
    return app.with_config(limits)
