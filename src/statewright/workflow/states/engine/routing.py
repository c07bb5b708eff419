"""Routing: the transitions of a branch after a state, which depend only on the result of that state.

A chain is a sequence of states that process each item of an iteration one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from statewright.errors import RoutingError
from statewright.graph import Send
from statewright.workflow.states.engine.token import Iteration, Token, child_path, continue_branch
from statewright.workflow.states.engine.visit import ItemRef, Visit
from statewright.workflow.states.expressions import holds
from statewright.workflow.states.language.model import State, node_name
from statewright.workflow.states.language.transition import END_STATE, Next


def find_chain_exits(states: Mapping[str, State]) -> dict[str, Next | None]:
    """Return the transition out of the chain of each state that iterates, by the ids of these states.

    It is None if the chain leads to `end` or forms a ring. A chain that leads into an earlier chain has the same exit,
    so the search visits every state once.
    """
    exits: dict[str, Next | None] = {}
    for state in states.values():
        chain: dict[str, None] = {}
        state_id, transition = state.id, state.next
        exit_transition: Next | None = None
        while transition.iter_key is not None:
            if state_id in exits:
                exit_transition = exits[state_id]
                break
            chain[state_id] = None
            state_id = transition.state_id or END_STATE
            if state_id in chain or state_id not in states:
                break
            transition = states[state_id].next
        else:
            exit_transition = transition
        exits.update(dict.fromkeys(chain, exit_transition))
    return exits


# -- routing


class Routes(NamedTuple):
    """The transitions of a branch."""

    sends: list[Send]
    targets: tuple[str, ...]
    """The ids of the next states, including `end`; empty if the next state is part of an iteration."""


class Router:
    """Routes the branches of one workflow."""

    def __init__(self, states: Mapping[str, State], *, max_items: int, final_node: str | None = None) -> None:
        self._exits = find_chain_exits(states)
        self._final_node = final_node
        """The node that runs when all branches have ended; None if there is no such node."""
        self._max_items = max_items

    def route(self, state: State, token: Token, visit: Visit) -> Routes:
        """Return the transitions of a token's branch after a visit. Raises RoutingError."""
        if state.next.iter_key is None:
            return self._gather(state.next, choose_targets(state.next, visit), token, visit)
        if token.iteration is not None and not state.finish_iteration:
            item = ItemRef(visit.id) if state.next.override_task else None
            return self._continue_chain(state.next, [continue_branch(token, visit, item=item)])
        return self._split(state.next, token, visit)

    def _continue_chain(self, transition: Next, tokens: Sequence[Token]) -> Routes:
        """Return the transitions to the next state of a chain, one per branch."""
        target = transition.state_id or END_STATE
        if target == END_STATE:
            return self._end()
        return Routes([Send(node_name(target), token) for token in tokens], ())

    def _split(self, transition: Next, token: Token, visit: Visit) -> Routes:
        """Return the transitions that start an iteration, one per item.

        If the branch is in an iteration already, the items become branches of that iteration.
        """
        key = transition.iter_key or ""
        items = visit.split_result(key)
        if len(items) > self._max_items:
            raise RoutingError(
                f"State {visit.state!r} returned {len(items)} items to iterate over; at most {self._max_items} are "
                f"allowed. Raise max_items if this is intended."
            )
        if not items:
            return self._skip_chain(token, visit)
        outer, total = token.iteration, len(items)
        if outer is not None:
            iteration_id, base, visible_keys = outer.id, outer.base, outer.visible_keys
        else:
            included_keys = transition.include_in_iterator_context
            iteration_id, base, visible_keys = visit.id, token.path, None if "*" in included_keys else included_keys
        tokens = [
            Token(
                (visit.id,),
                child_path(token.path, index, total),
                Iteration(iteration_id, base, ItemRef(visit.id, key, index), index, total, outer is None, visible_keys),
            )
            for index in range(total)
        ]
        return self._continue_chain(transition, tokens)

    def _skip_chain(self, token: Token, visit: Visit) -> Routes:
        """Return the transitions past a chain when there are no items.

        They are the transitions that the last state of the chain takes if no condition holds.
        """
        transition = self._exits[visit.state]
        if transition is None:
            return self._end()
        defaults = tuple(target for test, target in transition.branches if test is None) or transition.targets
        return self._gather(transition, defaults, token, visit)

    def _gather(self, transition: Next, targets: Sequence[str], token: Token, visit: Visit) -> Routes:
        """Return the transitions to target states, each of which waits for all branches that can still reach it."""
        iteration = token.iteration
        path = iteration.base if iteration is not None else token.path
        possible_targets = list(dict.fromkeys(target for target in transition.targets if target != END_STATE))
        has_choice = len(possible_targets) > 1 or END_STATE in transition.targets
        ended_iteration = iteration.id if iteration is not None and has_choice else None
        tokens = {
            target: Token(
                (visit.id,),
                _make_target_path(transition, path, target, possible_targets, iteration),
                ended_iteration=ended_iteration,
                base=path,
            )
            for target in targets
            if target != END_STATE
        }
        sends = [Send(node_name(target), token, gather=True) for target, token in tokens.items()]
        return Routes([*sends, *(self._end().sends if END_STATE in targets else ())], tuple(targets))

    def _end(self) -> Routes:
        """Return the transition of a branch that ends."""
        sends = [Send(self._final_node, Token(), gather=True)] if self._final_node is not None else []
        return Routes(sends, (END_STATE,))


def _make_target_path(
    transition: Next, path: str, target: str, possible_targets: Sequence[str], iteration: Iteration | None
) -> str:
    """Return the path of the branch to one of the possible targets: a child path if several may run concurrently."""
    # `state_ids` starts all of its targets, and the branches of an iteration may select different targets.
    if len(possible_targets) > 1 and (transition.state_ids is not None or iteration is not None):
        return child_path(path, possible_targets.index(target), len(possible_targets))
    return path


def choose_targets(transition: Next, visit: Visit) -> tuple[str, ...]:
    """Return the targets that the result of a visit selects."""
    for test, target in transition.branches:
        if test is None or holds(test, visit.result):
            return (target,)
    return transition.targets
