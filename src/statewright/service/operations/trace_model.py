"""The parts of a trace: steps, and what happened in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from statewright.runs import Json, ModelCall, StepRun, StepStatus


@dataclass(slots=True)
class Attempt:
    """One attempt at a step."""

    number: int
    started_at: datetime | None
    ended_at: datetime | None = None
    error: Json = None
    retry_at: datetime | None = None
    """When the next attempt began or begins, after a back-off."""


@dataclass(slots=True)
class PastWait:
    """A wait of a step: for an answer, a time or an event."""

    id: str
    kind: str
    signal_type: str | None
    started_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    """`signal`, `timer` or `end`, if the run has ended; None while the wait is open."""
    by_key: str | None = None
    """The id of the API key with which it was answered."""
    answer: Json = None
    """The answer to a question."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model or a tool within a step."""

    kind: str
    """`model` or `tool`."""
    name: str
    agent: str | None
    at: datetime
    """When its end was saved."""
    seconds: float | None
    """The duration, if it was measured."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    error: str | None = None

    @classmethod
    def of_model(cls, data: Mapping[str, Any], at: datetime) -> Self:
        """Return the call of a model that an entry `model_called` describes."""
        return cls(
            "model",
            str(data.get("model") or ""),
            data.get("agent"),
            at,
            data.get("seconds"),
            int(data.get("input_tokens") or 0),
            int(data.get("output_tokens") or 0),
            float(data.get("cost") or 0.0),
        )

    @classmethod
    def of_record(cls, call: ModelCall) -> Self:
        """Return the call of a model that has a record."""
        amounts = {"input_tokens": call.input_tokens, "output_tokens": call.output_tokens, "cost": call.cost}
        return cls.of_model({**(call.details or {}), "model": call.model, **amounts}, call.created_at)

    @classmethod
    def of_tool(cls, data: Mapping[str, Any], at: datetime, redact: Callable[[Any], Any] | None = None) -> Self:
        """Return the call of a tool that an entry `tool_called` describes."""
        error = data.get("error")
        error = redact(error) if redact is not None and error is not None else error
        return cls("tool", str(data.get("tool")), data.get("agent"), at, data.get("seconds"), error=error)


def agent_of(calls: Iterable[Call]) -> str | None:
    """Return the agent that has made some calls; None if there is none, or several."""
    agents = {call.agent for call in calls if call.agent is not None}
    return agents.pop() if len(agents) == 1 else None


@dataclass(slots=True, kw_only=True)
class InnerStep:
    """A step of a subgraph that a step of the run has called."""

    id: str
    """The id of its task."""
    parent_id: str | None
    """The inner step that has called the subgraph; None if the step of the run has."""
    path: tuple[str, ...]
    """The nodes that lead to it, from the step of the run to its own node."""
    superstep: int
    """The number of its superstep in the subgraph."""
    status: StepStatus
    agent: str | None = None
    """The agent whose models and tools were called in it; None if there is none, or several."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """The attempts, if one has failed; otherwise none."""
    calls: list[Call] = field(default_factory=list[Call])


@dataclass(slots=True)
class TracedStep:
    """A step with everything that happened in it."""

    step: StepRun
    agent: str | None = None
    """The agent that the step has called; None if there is none, or several."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    waits: list[PastWait] = field(default_factory=list[PastWait])
    calls: list[Call] = field(default_factory=list[Call])
    inner_steps: Sequence[InnerStep] = ()
    """The newest of the steps inside the subgraphs that it has called, the oldest first."""
    inner_count: int = 0
    """The number of all of them."""
