"""Policies of nodes and runs, as data: retries, timeouts, caching, circuit breakers, rate limits, budgets.

Creating a policy validates it, and raises InvalidGraph with all of its problems. `runtime/` enforces policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from statewright.clock import Duration, as_seconds, backoff
from statewright.errors import InvalidGraph, ModelAnswerInvalid, NodeTimeoutError, RateLimited, RunError

ErrorChoice = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Exception types, or a function of the exception."""


def default_retry_on(error: BaseException) -> bool:
    """Return whether a retry may help after an error. This is the default of `RetryPolicy.retry_on`.

    Timeouts, refusals by a rate limit and broken connections are retried, as are HTTP errors whose status is 429 or at
    least 500. Other errors of Statewright, and built-in exceptions that indicate a mistake in the program or its data,
    are not. All other exceptions are retried.
    """
    if isinstance(error, NodeTimeoutError | RateLimited | ConnectionError | TimeoutError):
        return True
    if isinstance(error, RunError):
        return False
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status == 429
    return not isinstance(error, _NOT_RETRIED)


_NOT_RETRIED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    StopAsyncIteration,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)


def _matches(choice: ErrorChoice, error: BaseException) -> bool:
    return isinstance(error, choice) if isinstance(choice, type | tuple) else bool(choice(error))


def _choice_problems(name: str, choice: Any) -> Iterable[str]:
    classes = cast("tuple[Any, ...]", choice) if isinstance(choice, tuple) else (choice,)
    if any(not callable(cls) or (isinstance(cls, type) and not issubclass(cls, BaseException)) for cls in classes):
        yield f"{name} is {choice!r}. Pass exception types, or a function of the exception."


class _Policy:
    """Base class of policies, which validates them when they are created."""

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise InvalidGraph(problems, graph=type(self).__name__)

    def _problems(self) -> Iterable[str]:
        return ()

    def _check(self, *names: str, minimum: float | None = None) -> Iterable[str]:
        """Yield the problems of fields that must be None, a number or a duration.

        The value must be at least `minimum`, or above 0 if `minimum` is None.
        """
        requirement = "above 0" if minimum is None else f"of at least {minimum:g}"
        for name in names:
            value = getattr(self, name)
            seconds = as_seconds(value) if _is_duration(value) else -1.0
            if value is not None and not (seconds > 0 if minimum is None else seconds >= minimum):
                yield f"{name} is {value!r}. Pass a number {requirement}."


def _is_duration(value: object) -> bool:
    return hasattr(value, "total_seconds") or (isinstance(value, int | float) and not isinstance(value, bool))


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy(_Policy):
    """Retry a failed node, with exponential backoff."""

    initial_interval: Duration = 0.5
    """The delay before the second attempt."""
    backoff_factor: float = 2.0
    """The factor by which the delay grows after each attempt."""
    max_interval: Duration = 128.0
    """The maximum delay."""
    max_attempts: int = 3
    """The maximum number of attempts, including the first."""
    jitter: bool = True
    """True to lengthen each delay by a random time of at most a second, and at most the delay itself."""
    retry_on: ErrorChoice = default_retry_on
    """Exception types, or a function of the exception that returns whether to retry."""

    def delay(self, attempt: int, random_number: float) -> float:
        """Return the seconds to wait after the attempt with this number, counted from 1.

        `random_number`, from 0 to 1, determines the jitter.
        """
        initial, longest = as_seconds(self.initial_interval), as_seconds(self.max_interval)
        interval = backoff(attempt, initial=initial, longest=longest, factor=self.backoff_factor)
        return interval + (min(interval, 1.0) * random_number if self.jitter else 0.0)

    def matches(self, error: BaseException) -> bool:
        """Return whether the policy applies to an error.

        It never applies to an invalid answer of a model that has already used up its own retries, because the two
        numbers of attempts would multiply.
        """
        if isinstance(error, ModelAnswerInvalid) and error.is_final:
            return False
        return _matches(self.retry_on, error)

    def _problems(self) -> Iterable[str]:
        yield from self._check("initial_interval", "max_interval", minimum=0)
        yield from self._check("backoff_factor", "max_attempts", minimum=1)
        yield from _choice_problems("retry_on", self.retry_on)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeoutPolicy(_Policy):
    """Time limits for each attempt at a node."""

    run_timeout: Duration | None = None
    """The maximum duration of one attempt."""
    idle_timeout: Duration | None = None
    """The maximum time without a heartbeat; `refresh_on` defines heartbeats."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """What counts as a heartbeat: only calls of `runtime.heartbeat()` (`heartbeat`), or also streamed values, steps and
    calls of subgraphs (`auto`)."""

    def _problems(self) -> Iterable[str]:
        yield from self._check("run_timeout", "idle_timeout")
        if self.run_timeout is None and self.idle_timeout is None:
            yield "neither run_timeout nor idle_timeout is set. Set one of them."
        if self.refresh_on not in ("auto", "heartbeat"):
            yield f"refresh_on is {self.refresh_on!r}. Choices: auto, heartbeat."


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy(_Policy):
    """Cache the results of a node, keyed by its input."""

    key_func: Callable[[Any], Any] | None = None
    """Computes the cache key from the node's input; by default the whole input is the key."""
    ttl: Duration | None = None
    """The time to live of a cached result; unlimited by default."""

    def _problems(self) -> Iterable[str]:
        yield from self._check("ttl")
        if self.key_func is not None and not callable(self.key_func):
            yield f"key_func is {self.key_func!r}. Pass a function of the node's input."


@dataclass(frozen=True, kw_only=True, slots=True)
class CircuitBreaker(_Policy):
    """Refuse attempts for a while after too many consecutive failures."""

    failure_threshold: int = 5
    """The number of consecutive failures that open the circuit. While it is open, attempts fail at once with
    CircuitOpen."""
    reset_after: Duration = 30.0
    """How long the circuit stays open. Then one attempt is allowed, and the circuit closes if it succeeds."""
    counts: ErrorChoice = Exception
    """The errors that count as failures."""

    def counts_as_failure(self, error: BaseException) -> bool:
        """Return whether an error counts as a failure."""
        return _matches(self.counts, error)

    def _problems(self) -> Iterable[str]:
        yield from self._check("failure_threshold", minimum=1)
        yield from _choice_problems("counts", self.counts)
        yield from self._check("reset_after")


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit(_Policy):
    """Start at most `limit` attempts in each period `per`, using a token bucket."""

    limit: int
    per: Duration = 1.0
    burst: int | None = None
    """The number of attempts that may start at once after a quiet period; `limit` by default."""
    on_limit: Literal["wait", "refuse"] = "wait"
    """What happens to an attempt above the limit: it waits for its turn, or fails with RateLimited."""

    def _problems(self) -> Iterable[str]:
        yield from self._check("limit", "burst", minimum=1)
        yield from self._check("per")
        if self.on_limit not in ("wait", "refuse"):
            yield f"on_limit is {self.on_limit!r}. Choices: wait, refuse."


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget(_Policy):
    """Limits for one call of a graph, including its subgraphs. They are checked between supersteps."""

    max_steps: int | None = None
    """The maximum number of supersteps. Unlike `recursion_limit`, it can lead to the `on_budget` node."""
    max_visits: int | Mapping[str, int] | None = None
    """How often each node may run: one limit for all nodes, or a mapping with limits for some nodes."""
    max_seconds: Duration | None = None
    max_tokens: int | None = None
    """The maximum number of tokens, as counted by `runtime.spend(tokens=...)` and the model port."""
    max_cost: float | None = None
    """The maximum cost, in the unit that is passed to `runtime.spend(cost=...)`."""
    on_budget: str | None = None
    """The node that runs once in place of the due tasks when a limit is reached; None to raise BudgetExceeded."""

    def _problems(self) -> Iterable[str]:
        yield from self._check("max_steps", minimum=1)
        yield from self._check("max_seconds", "max_tokens", "max_cost")
        visits = self.max_visits
        by_node: Mapping[str, Any] = visits if isinstance(visits, Mapping) else {"": visits}
        for node, count in by_node.items():
            if count is not None and (not isinstance(count, int) or count < 1):
                yield f"max_visits{f' of {node!r}' if node else ''} is {count!r}. Pass an integer of at least 1."
        if all(getattr(self, field.name) is None for field in fields(self) if field.name.startswith("max_")):
            yield "it limits nothing. Pass at least one of max_steps, max_visits, max_seconds, max_tokens, max_cost."


Timeout = TimeoutPolicy | Duration


def as_timeout(timeout: Timeout | None) -> TimeoutPolicy | None:
    """Return a timeout as a policy. A number of seconds or a timedelta limits the duration of one attempt."""
    if timeout is None or isinstance(timeout, TimeoutPolicy):
        return timeout
    return TimeoutPolicy(run_timeout=timeout)


def as_retries(policies: Any) -> tuple[RetryPolicy, ...]:
    """Return a policy, or a sequence of policies, as a tuple; return an empty tuple for None."""
    if policies is None:
        return ()
    return tuple(cast("list[RetryPolicy]", policies)) if isinstance(policies, list | tuple) else (policies,)
