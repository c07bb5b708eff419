"""Usage limits of a network's run, and the reasons why a run ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from statewright.agents.state.result import AgentResult
from statewright.models import ModelResponse, Usage

StopReason = Literal["completed", "done", "max_iter", "stop_when", "usage_limit", "stopped", "length", "refused"]
"""How a network or an agent ended: its router named nobody else, or the model was through; the model that routes said
that everything is done; the most calls were made; the condition of `stop_when` held; a usage limit was reached; a hook
said stop; the last answer was cut off at its limit of tokens; it was refused, by the model or a filter."""
COMPLETED: Final[StopReason] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """The most that one run of a network may use up; checked before each call of a model, also for summaries."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    _unpriced: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)
    """The models of which a warning has said that their price is unknown."""

    def reached(self, usage: Usage, requests: int) -> str | None:
        """Return the limit that leaves no room for another call, in words; None if there is room."""
        used = {
            "requests": requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "tokens": usage.tokens,
            "cost": usage.cost,
        }
        for name, amount in used.items():
            most = getattr(self, name)
            if most is not None and amount >= most:
                return f"{name}: {amount:g} of {most:g}"
        return None

    def check_price(self, usage: Usage, model: str) -> None:
        """Warn, once for each model, that a limit on cost does not count it since its price is unknown."""
        if self.cost is None or not usage.tokens or usage.cost or model in self._unpriced:
            return
        self._unpriced.add(model)
        logging.getLogger("statewright").warning(
            "The usage limit of %g dollars does not count model %s, whose price is unknown. "
            "Limit tokens or requests too.",
            self.cost,
            model,
        )


class Allowance:
    """The usage that the limits of a run still allow; without limits, any."""

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
        """Count a call that was made. `model` names the model where the response does not."""
        if self._limits is not None:
            self._usage, self._requests = self._usage + response.usage, self._requests + 1
            self._limits.check_price(response.usage, repr(response.model) if response.model else model)


def total_usage(results: Iterable[AgentResult]) -> tuple[Usage, int]:
    """Return the total usage of the results, and their number of model calls."""
    found = list(results)
    return sum((one.usage for one in found), Usage()), sum(one.requests for one in found)
