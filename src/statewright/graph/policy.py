"""Policies of nodes and runs, as data: what to do about failure, slowness, crowds, repetition and cost.

A policy checks itself when it is made, and raises InvalidGraph with everything that is wrong about it. What carries
policies out is in `runtime/`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidGraph, ModelAnswerInvalid, NodeTimeoutError, RateLimited, RunError

ErrorChoice = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Exception types, or a function of the exception."""


def default_retry_on(error: BaseException) -> bool:
    """Whether an error looks as if trying again might help: timeouts, broken connections, and what nobody planned.

    Errors that say that the program or its data is wrong are not tried again; of HTTP errors those of the server
    (status 500 and above) and 429 are.
    """
    if isinstance(error, NodeTimeoutError | RateLimited | ConnectionError | TimeoutError):
        return True
    if isinstance(error, RunError):
        return False
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status == 429
    return not isinstance(error, _WRONG)


_WRONG = (
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


def _chosen(choice: ErrorChoice, error: BaseException) -> bool:
    return isinstance(error, choice) if isinstance(choice, type | tuple) else bool(choice(error))


def _choice_problems(name: str, choice: Any) -> Iterable[str]:
    kinds = cast("tuple[Any, ...]", choice) if isinstance(choice, tuple) else (choice,)
    if any(not callable(kind) or (isinstance(kind, type) and not issubclass(kind, BaseException)) for kind in kinds):
        yield f"{name} is {choice!r}. Give exception types, or a function of the exception."


class _Policy:
    """What all policies share: they check themselves."""

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise InvalidGraph(problems, graph=type(self).__name__)

    def _problems(self) -> Iterable[str]:
        return ()

    def _not_below(self, least: float, *names: str) -> Iterable[str]:
        """The problems of numbers and durations that must be at least `least`."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not (_is_duration(value) and as_seconds(value) >= least):
                yield f"{name} is {value!r}. Give a number of at least {least:g}."

    def _above_zero(self, *names: str) -> Iterable[str]:
        for name in names:
            value = getattr(self, name)
            if value is not None and not (_is_duration(value) and as_seconds(value) > 0):
                yield f"{name} is {value!r}. Give a number above 0."


def _is_duration(value: object) -> bool:
    return hasattr(value, "total_seconds") or (isinstance(value, int | float) and not isinstance(value, bool))


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy(_Policy):
    """Try a failed node again, after a while that grows."""

    initial_interval: Duration = 0.5
    """Before the second attempt."""
    backoff_factor: float = 2.0
    """By what the interval grows from attempt to attempt."""
    max_interval: Duration = 128.0
    max_attempts: int = 3
    """How often the node is tried in all."""
    jitter: bool = True
    """Whether up to a second, at most the interval itself, is added at random, so that a crowd spreads out."""
    retry_on: ErrorChoice = default_retry_on
    """Exception types, or a function of the exception that says whether to try again."""

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait after the given attempt, counted from 1; `chance` is between 0 and 1."""
        grown = as_seconds(self.initial_interval) * self.backoff_factor ** (attempt - 1)
        interval = min(grown, as_seconds(self.max_interval))
        return interval + (min(interval, 1.0) * chance if self.jitter else 0.0)

    def matches(self, error: BaseException) -> bool:
        """Whether the policy is for this error.

        It never is for a model that was asked for an answer as often as it may be: the tries would multiply.
        """
        if isinstance(error, ModelAnswerInvalid) and error.is_final:
            return False
        return _chosen(self.retry_on, error)

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(0, "initial_interval", "max_interval")
        yield from self._not_below(1, "backoff_factor", "max_attempts")
        yield from _choice_problems("retry_on", self.retry_on)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeoutPolicy(_Policy):
    """Give up an attempt that takes too long."""

    run_timeout: Duration | None = None
    """How long one attempt may take."""
    idle_timeout: Duration | None = None
    """How long an attempt may give no sign of life: see `refresh_on`."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """What is a sign of life: `runtime.heartbeat()` alone, or also streaming, steps and calls of subgraphs."""

    def _problems(self) -> Iterable[str]:
        yield from self._above_zero("run_timeout", "idle_timeout")
        if self.run_timeout is None and self.idle_timeout is None:
            yield "neither run_timeout nor idle_timeout is given. Give one of them."
        if self.refresh_on not in ("auto", "heartbeat"):
            yield f"refresh_on is {self.refresh_on!r}. Choices: auto, heartbeat."


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy(_Policy):
    """Keep what a node answers, and give it again for the same input."""

    key_func: Callable[[Any], Any] | None = None
    """Makes the key of an input; without it all of the input is the key."""
    ttl: Duration | None = None
    """How long an answer is good for; for ever if not given."""

    def _problems(self) -> Iterable[str]:
        yield from self._above_zero("ttl")
        if self.key_func is not None and not callable(self.key_func):
            yield f"key_func is {self.key_func!r}. Give a function of the node's input."


@dataclass(frozen=True, kw_only=True, slots=True)
class CircuitBreaker(_Policy):
    """Refuse to call what fails again and again, for a while."""

    failure_threshold: int = 5
    """After so many failures in a row the circuit opens: attempts fail at once with CircuitOpen."""
    reset_after: Duration = 30.0
    """How long it stays open; then one attempt is let through, and closes it if it succeeds."""
    counts: ErrorChoice = Exception
    """Which errors count as failures."""

    def counted(self, error: BaseException) -> bool:
        """Whether an error is one of those."""
        return _chosen(self.counts, error)

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "failure_threshold")
        yield from _choice_problems("counts", self.counts)
        yield from self._above_zero("reset_after")


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit(_Policy):
    """Start no more than `limit` attempts in any stretch of `per` seconds, counted by a token bucket."""

    limit: int
    per: Duration = 1.0
    burst: int | None = None
    """How many may start at once after a quiet time; `limit` if not given."""
    on_limit: Literal["wait", "refuse"] = "wait"
    """What an attempt above the limit does: wait for its turn, or fail with RateLimited."""

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "limit", "burst")
        yield from self._above_zero("per")
        if self.on_limit not in ("wait", "refuse"):
            yield f"on_limit is {self.on_limit!r}. Choices: wait, refuse."


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget(_Policy):
    """What one call may spend, subgraphs included. Checked between supersteps."""

    max_steps: int | None = None
    """Supersteps, like recursion_limit, but with a way out."""
    max_visits: int | Mapping[str, int] | None = None
    """How often each node may run; or for some nodes, how often."""
    max_seconds: Duration | None = None
    max_tokens: int | None = None
    """As counted by `runtime.spend(tokens=...)` and the model port."""
    max_cost: float | None = None
    """In the unit that is given to `runtime.spend(cost=...)`."""
    on_budget: str | None = None
    """The node that runs instead of what was due when something is used up, once; without it BudgetExceeded."""

    def _problems(self) -> Iterable[str]:
        yield from self._not_below(1, "max_steps")
        yield from self._above_zero("max_seconds", "max_tokens", "max_cost")
        visits = self.max_visits
        listed: Mapping[str, Any] = visits if isinstance(visits, Mapping) else {"": visits}
        for node, count in listed.items():
            if count is not None and (not isinstance(count, int) or count < 1):
                yield f"max_visits{f' of {node!r}' if node else ''} is {count!r}. Give a whole number of at least 1."
        if all(getattr(self, one.name) is None for one in fields(self) if one.name.startswith("max_")):
            yield "it limits nothing. Give at least one of max_steps, max_visits, max_seconds, max_tokens, max_cost."


Retries = RetryPolicy | tuple[RetryPolicy, ...]
Timeout = TimeoutPolicy | Duration


def as_timeout(given: Timeout | None) -> TimeoutPolicy | None:
    """The policy that a timeout means: a number or timedelta is how long one attempt may take."""
    if given is None or isinstance(given, TimeoutPolicy):
        return given
    return TimeoutPolicy(run_timeout=given)


def as_retries(given: Any) -> tuple[RetryPolicy, ...]:
    """One policy or several as a tuple; the first that matches an error decides about it."""
    if given is None:
        return ()
    return tuple(cast("list[RetryPolicy]", given)) if isinstance(given, list | tuple) else (given,)


def is_policy_of(kind: type, given: object) -> bool:
    """Whether `given` is a policy of that kind, not the class itself."""
    return isinstance(given, kind) and not inspect.isclass(given)
