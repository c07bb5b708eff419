"""What a network may use up, and why it came to an end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from statewright.agents.result import AgentResult
from statewright.models import Usage
from statewright.runtime.budget import warn_unpriced

StopReason = Literal["completed", "done", "max_iter", "stop_when", "usage_limit", "stopped", "length", "refused"]
"""How a network or an agent ended: its router named nobody else, or the model was through; the model that routes said
that everything is done; the most calls were made; the condition of `stop_when` held; a usage limit was reached; a hook
said stop; the last answer was cut off at its limit of tokens; it was refused, by the model or a filter."""
COMPLETED: Final[StopReason] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """The most that one run of a network may use up; checked before each call of a model."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""

    def reached(self, usage: Usage, requests: int) -> str | None:
        """Return the limit that leaves no room for another call, in words; None if there is room.

        A limit on cost is warned about where the price of a model is unknown: it can never be reached then.
        """
        if self.cost is not None and usage.tokens and not usage.cost:
            warn_unpriced(f"The usage limit of {self.cost:g} dollars", usage.tokens)
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


def used_up(results: Iterable[AgentResult]) -> tuple[Usage, int]:
    """What results have cost together, and with how many calls of models."""
    found = list(results)
    return sum((one.usage for one in found), Usage()), sum(one.requests for one in found)
