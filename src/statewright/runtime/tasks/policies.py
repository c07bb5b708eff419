"""The policies of one node, ready to be carried out.

Limits are shared: by all runs of a compiled graph, and those of a tag by all nodes that have it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from statewright.checkpoint import TimeLimit
from statewright.clock import as_seconds
from statewright.graph import CachePolicy, Graph, Node, RetryPolicy, TagLimits, TimeoutPolicy
from statewright.runtime.invocation.limits import Circuit, Rate, Slots


def time_limit(policy: TimeoutPolicy | None) -> TimeLimit | None:
    """The limit that a policy sets; None where there is none."""
    if policy is None:
        return None
    run, idle = policy.run_timeout, policy.idle_timeout
    return TimeLimit(
        None if run is None else as_seconds(run),
        None if idle is None else as_seconds(idle),
        policy.refresh_on == "heartbeat",
    )


class Guards:
    """The policies of a node, resolved: retries, timeouts, limits, circuit breakers and the cache."""

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
        """Always in the same order, the node's own first and then those of its tags by name, so that two tasks cannot
        deadlock."""
        self.rates = rates
        self.circuits = circuits

    def delay(self, attempt: int, error: BaseException, chance: float) -> float | None:
        """Return the delay before the next attempt, or None if there is none. The first matching policy decides."""
        for policy in self.retries:
            if policy.matches(error):
                return policy.delay(attempt, chance) if attempt < policy.max_attempts else None
        return None

    def chosen_delay(self, attempt: int, tried: object) -> float | None:
        """The delay after what an attempt brought; None if that is no error to try again on."""
        if not isinstance(tried, Exception):
            return None
        delay = self.delay(attempt, tried, random.random())
        return max(delay, asked_for(tried)) if delay is not None else None


LONGEST_ASKED: Final = 3600.0
"""The longest delay in seconds that a service may ask for; a longer one is cut to this."""


def asked_for(error: Exception) -> float:
    """Return the delay in seconds that a service has asked for: `retry_after`, which is Retry-After in HTTP."""
    asked: Any = getattr(error, "retry_after", None)
    return min(max(float(asked), 0.0), LONGEST_ASKED) if isinstance(asked, int | float) else 0.0


_POLICIES = ("retry_policy", "timeout", "cache_policy", "max_concurrency", "rate_limit", "circuit_breaker")
NO_GUARDS = Guards()


class SharedLimits:
    """The limits of a compiled graph, each made once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._by_tag = {tag: self._made(limits, f"Tag {tag!r}") for tag, limits in sorted(graph.tag_limits.items())}

    def of(self, node: Node) -> Guards | None:
        """The guards of a node; None if it has none, as nearly all nodes do."""
        shared = [self._by_tag[tag] for tag in sorted(node.tags) if tag in self._by_tag] if self._by_tag else []
        if not (shared or any(map(node.__getattribute__, _POLICIES))):
            return None
        own = TagLimits(
            max_concurrency=node.max_concurrency, rate_limit=node.rate_limit, circuit_breaker=node.circuit_breaker
        )
        limits = [self._made(own, f"Node {node.name!r}"), *shared]
        slots = [one for found, _, _ in limits for one in found]
        rates = [one for _, found, _ in limits for one in found]
        circuits = [one for _, _, found in limits for one in found]
        return Guards(
            retries=node.retry_policy,
            timeout=node.timeout,
            cache=node.cache_policy,
            slots=slots,
            rates=rates,
            circuits=circuits,
        )

    def _made(self, limits: TagLimits, who: str) -> tuple[list[Slots], list[Rate], list[Circuit]]:
        return (
            [Slots(limits.max_concurrency)] if limits.max_concurrency is not None else [],
            [Rate(limits.rate_limit, who)] if limits.rate_limit is not None else [],
            [Circuit(limits.circuit_breaker, who)] if limits.circuit_breaker is not None else [],
        )
