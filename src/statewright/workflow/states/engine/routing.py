"""Chains of iteration: the states that work on an item one after the other, and the way on from the last of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from statewright.errors import RoutingError
from statewright.graph import Send
from statewright.workflow.states.engine.token import Iteration, Token, below, continued
from statewright.workflow.states.engine.visit import ItemRef, Visit
from statewright.workflow.states.expressions import holds
from statewright.workflow.states.language.model import END_STATE, Next, State


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


# -- Where a branch goes on after a state: decided by the state's own result, and by nothing else.


class Ways(NamedTuple):
    """Where a branch goes on."""

    sends: list[Send]
    into: tuple[str, ...]
    """The states that they lead to, `end` included; empty within an iteration that goes on."""


class Router:
    """Decides for the states of one workflow."""

    def __init__(
        self,
        states: Mapping[str, State],
        node_of: Callable[[str], str],
        *,
        max_items: int,
        after: str | None = None,
    ) -> None:
        self._exits = chain_exits(states)
        self._node_of = node_of
        self._after = after
        """The node that comes when all branches have ended; None if there is none."""
        self._max_items = max_items

    def ways(self, state: State, token: Token, visit: Visit) -> Ways:
        """Where the branch of a token goes on after a visit. Raises RoutingError."""
        if state.next.iter_key is None:
            return self._left(state.next, chosen(state.next, visit), token, visit)
        if token.iteration is not None and not state.finish_iteration:
            item = ItemRef(visit.id) if state.next.override_task else None
            return self._stage(state.next, [continued(token, visit, item=item)])
        return self._split(state.next, token, visit)

    def _stage(self, way: Next, tokens: Sequence[Token]) -> Ways:
        """The next state of a chain, for each branch on its own."""
        target = way.state_id or END_STATE
        if target == END_STATE:
            return Ways(self._ended(), (END_STATE,))
        return Ways([Send(self._node_of(target), token) for token in tokens], ())

    def _split(self, way: Next, token: Token, visit: Visit) -> Ways:
        """The branches of an iteration that begins, or begins anew within another one."""
        key = way.iter_key or ""
        items = visit.items(key)
        if len(items) > self._max_items:
            raise RoutingError(
                f"State {visit.state!r} gives {len(items)} items to iterate over, and at most {self._max_items} are "
                f"allowed. Raise max_items if that is meant."
            )
        if not items:
            return self._past_chain(token, visit)
        outer, total = token.iteration, len(items)
        identity, base = (outer.id, outer.base) if outer is not None else (visit.id, token.path)
        only = outer.only if outer is not None else _included(way)
        tokens = [
            Token(
                (visit.id,),
                below(token.path, index, total),
                Iteration(identity, base, ItemRef(visit.id, key, index), index, total, outer is None, only),
            )
            for index in range(total)
        ]
        return self._stage(way, tokens)

    def _past_chain(self, token: Token, visit: Visit) -> Ways:
        """Where a chain leads that has nothing to do: on from its last state, as if no condition held there."""
        way = self._exits[visit.state]
        if way is None:
            return Ways(self._ended(), (END_STATE,))
        return self._left(way, _unmet(way), token, visit)

    def _left(self, way: Next, targets: Sequence[str], token: Token, visit: Visit) -> Ways:
        """The transitions to states that wait for all that can still reach them."""
        inner = token.iteration
        path = inner.base if inner is not None else token.path
        possible = list(dict.fromkeys(one for one in way.targets if one != END_STATE))
        ended = inner.id if inner is not None and (len(possible) > 1 or END_STATE in way.targets) else None
        tokens = {
            target: Token((visit.id,), _branch(way, path, target, possible, inner), None, ended, path)
            for target in targets
            if target != END_STATE
        }
        sends = [Send(self._node_of(target), token, gather=True) for target, token in tokens.items()]
        return Ways([*sends, *(self._ended() if END_STATE in targets else ())], tuple(targets))

    def _ended(self) -> list[Send]:
        return [Send(self._after, Token(), gather=True)] if self._after is not None else []


def _included(way: Next) -> tuple[str, ...] | None:
    """The keys of the context that branches see; None for all."""
    return None if "*" in way.include_in_iterator_context else way.include_in_iterator_context


def _branch(way: Next, path: str, target: str, possible: Sequence[str], inner: Iteration | None) -> str:
    """The path of the branch to a target: one of its own where several may go on beside each other."""
    if len(possible) > 1 and (way.state_ids is not None or inner is not None):
        return below(path, possible.index(target), len(possible))
    return path


def chosen(way: Next, visit: Visit) -> tuple[str, ...]:
    """The targets that the result of a visit chooses."""
    if way.condition is not None:
        condition = way.condition
        return (condition.then if holds(condition.expression, visit.result) else condition.otherwise,)
    if way.switch is not None:
        found = (case.state_id for case in way.switch.cases if holds(case.condition, visit.result))
        return (next(found, way.switch.default),)
    return way.targets


def _unmet(way: Next) -> tuple[str, ...]:
    """The targets where no condition holds."""
    if way.condition is not None:
        return (way.condition.otherwise,)
    return (way.switch.default,) if way.switch is not None else way.targets
