"""Usage limits of a network's run, and the reasons why a run ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from statewright.agents.state.result import AgentResult
from statewright.models import ModelResponse, Usage

StopReason = Literal["completed", "done", "max_iter", "stop_when", "usage_limit", "stopped", "length", "refused"]
"""The reason why a network or agent ended: the router chose no agent, or the model was done; the routing model called
`done`; the maximum number of calls was reached; `stop_when` was true; a usage limit was reached; a hook stopped it; the
last answer was cut off at its token limit; or it was refused, by the model or a filter."""
COMPLETED: Final[StopReason] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits on the usage of one run of a network, checked before each model call, summaries included."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    _unpriced: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)
    """The models of unknown price for which a warning was logged."""

    def reached(self, usage: Usage, requests: int) -> str | None:
        """Return a description of the limit that allows no further call; None if all allow it."""
        amounts = {
            "requests": requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "tokens": usage.tokens,
            "cost": usage.cost,
        }
        for name, amount in amounts.items():
            limit = getattr(self, name)
            if limit is not None and amount >= limit:
                return f"{name}: {amount:g} of {limit:g}"
        return None

    def check_price(self, usage: Usage, model: str) -> None:
        """Log a warning, once per model, if the cost limit cannot include a call because the price is unknown."""
        if self.cost is None or not usage.tokens or usage.cost or model in self._unpriced:
            return
        self._unpriced.add(model)
        logging.getLogger("statewright").warning(
            "The usage limit of %g dollars does not include model %s, whose price is unknown. "
            "Limit tokens or requests too.",
            self.cost,
            model,
        )


class Allowance:
    """The usage that the limits of a run still allow; anything without limits."""

    def __init__(self, limits: UsageLimits | None, usage: Usage, requests: int) -> None:
        """`usage` and `requests` are those of the run so far."""
        self._limits = limits
        self._usage = usage
        self._requests = requests

    @property
    def is_used_up(self) -> bool:
        """True if the limits allow no further model call."""
        return self._limits is not None and self._limits.reached(self._usage, self._requests) is not None

    def count(self, response: ModelResponse, model: str) -> None:
        """Count a model call. `model` names the model if the response does not."""
        if self._limits is not None:
            self._usage, self._requests = self._usage + response.usage, self._requests + 1
            self._limits.check_price(response.usage, repr(response.model) if response.model else model)


def total_usage(results: Iterable[AgentResult]) -> tuple[Usage, int]:
    """Return the total usage of the results, and their number of model calls."""
    results = list(results)
    return sum((result.usage for result in results), Usage()), sum(result.requests for result in results)
