"""The policies of nodes, in the form that the runtime uses.

All runs of a compiled graph share the limits of a node, and all nodes with the same tag share the limits of the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statewright.checkpoint import TimeLimit
from statewright.clock import as_seconds
from statewright.graph import CachePolicy, Graph, Node, RetryPolicy, TagLimits, TimeoutPolicy
from statewright.runtime.invocation.limits import Circuit, Rate, Slots


def time_limit(policy: TimeoutPolicy | None) -> TimeLimit | None:
    """Return a timeout policy as a TimeLimit, whose durations are in seconds; None if there is no policy."""
    if policy is None:
        return None
    run, idle = policy.run_timeout, policy.idle_timeout
    return TimeLimit(
        None if run is None else as_seconds(run),
        None if idle is None else as_seconds(idle),
        policy.refresh_on == "heartbeat",
    )


class NodePolicies:
    """The policies of a node: retries, timeout, limits, circuit breakers and the cache policy."""

    __slots__ = ("cache", "circuits", "rates", "retries", "slots", "timeout")

    def __init__(
        self,
        *,
        retries: Sequence[RetryPolicy] = (),
        timeout: TimeoutPolicy | None = None,
        cache: CachePolicy | None = None,
        slots: Sequence[Slots] = (),
        rates: Sequence[Rate] = (),
        circuits: Sequence[Circuit] = (),
    ) -> None:
        self.retries = retries
        self.timeout = time_limit(timeout)
        self.cache = cache
        self.slots = slots
        """Limits on concurrency: first the node's own limit, then the limits of its tags, sorted by name. The order is
        always the same, so that two tasks cannot deadlock."""
        self.rates = rates
        self.circuits = circuits

    def retry_delay(self, number: int, outcome: object) -> float | None:
        """Return the seconds to wait between attempt `number` and the next; None if there is no next attempt.

        The first retry policy that matches the error decides. If the error has a longer `retry_after`, that is used.
        """
        if not isinstance(outcome, Exception):
            return None
        policy = next((policy for policy in self.retries if policy.matches(outcome)), None)
        if policy is None or number >= policy.max_attempts:
            return None
        from random import random  # slow to import, and few programs retry

        return max(policy.delay(number, random()), _retry_after(outcome))


LONGEST_RETRY_AFTER: Final = 3600.0
"""The longest delay, in seconds, that an error may request as `retry_after`. Longer ones are reduced to this."""


def _retry_after(error: Exception) -> float:
    """Return the delay in seconds that an error requests as `retry_after`, like the HTTP header; 0 if it has none."""
    seconds: Any = getattr(error, "retry_after", None)
    return min(max(float(seconds), 0.0), LONGEST_RETRY_AFTER) if isinstance(seconds, int | float) else 0.0


_POLICIES = ("retry_policy", "timeout", "cache_policy", "max_concurrency", "rate_limit", "circuit_breaker")
NO_POLICIES = NodePolicies()


class PolicyFactory:
    """Creates the policies of the nodes of a compiled graph. The limits of a tag are created once for all its nodes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._by_tag = {tag: _limits_of(limits, f"Tag {tag!r}") for tag, limits in sorted(graph.tag_limits.items())}

    def policies_of(self, node: Node) -> NodePolicies | None:
        """Return the policies of a node; None if it has none, like most nodes."""
        shared = [self._by_tag[tag] for tag in sorted(node.tags) if tag in self._by_tag] if self._by_tag else []
        if not (shared or any(map(node.__getattribute__, _POLICIES))):
            return None
        own = TagLimits(
            max_concurrency=node.max_concurrency, rate_limit=node.rate_limit, circuit_breaker=node.circuit_breaker
        )
        slots, rates, circuits = zip(_limits_of(own, f"Node {node.name!r}"), *shared, strict=True)
        return NodePolicies(
            retries=node.retry_policy,
            timeout=node.timeout,
            cache=node.cache_policy,
            slots=[limit for limit in slots if limit is not None],
            rates=[limit for limit in rates if limit is not None],
            circuits=[limit for limit in circuits if limit is not None],
        )


def _limits_of(limits: TagLimits, owner: str) -> tuple[Slots | None, Rate | None, Circuit | None]:
    """Create the limits of a node or a tag. `owner` is its name in errors, such as "Node 'a'"."""
    return (
        Slots(limits.max_concurrency) if limits.max_concurrency is not None else None,
        Rate(limits.rate_limit, owner) if limits.rate_limit is not None else None,
        Circuit(limits.circuit_breaker, owner) if limits.circuit_breaker is not None else None,
    )
