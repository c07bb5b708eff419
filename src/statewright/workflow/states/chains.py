"""Chains of iteration: the states that work on an item one after the other, and the way on from the last of them."""

from __future__ import annotations

from collections.abc import Mapping

from statewright.workflow.states.model import END_STATE, Next, State


def chain_exits(states: Mapping[str, State]) -> dict[str, Next | None]:
    """Return the way on from the last state of its chain, for each state that iterates.

    It is None for a chain that leads to `end`, or round in a ring. Every state is visited once: chains that lead into
    each other share what was worked out for the first of them.
    """
    exits: dict[str, Next | None] = {}
    for state in states.values():
        chain: dict[str, None] = {}
        state_id, way = state.id, state.next
        exit_way: Next | None = None
        while way.iter_key is not None:
            if state_id in exits:
                exit_way = exits[state_id]
                break
            chain[state_id] = None
            state_id = way.state_id or END_STATE
            if state_id in chain or state_id not in states:
                break
            way = states[state_id].next
        else:
            exit_way = way
        exits.update(dict.fromkeys(chain, exit_way))
    return exits
