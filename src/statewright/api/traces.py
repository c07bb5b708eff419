"""Traces of runs, the states around steps, and the sources of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from statewright.api.resource import Resource
from statewright.api.runs import Step, StepStatusName


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Resource):
    """One attempt at a step."""

    number: int
    started_at: datetime | None
    ended_at: datetime | None
    error: Any
    retry_at: datetime | None
    """The start of the next attempt, after a back-off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWait(Resource):
    """A wait of a step, open or ended."""

    id: str
    kind: Literal["question", "timer", "event"]
    signal_type: str | None
    started_at: datetime
    ended_at: datetime | None
    ended_by: Literal["signal", "timer", "end"] | None
    """`end` if the run has ended without an answer; null while the wait is open."""
    by_key: str | None
    """The id of the API key with which it was answered; null if the server requires no keys."""
    answer: Any
    """The answer to a question; null for a timer or an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall(Resource):
    """A call of a model or a tool within a step."""

    kind: Literal["model", "tool"]
    name: str
    agent: str | None
    at: datetime
    """When its end was saved."""
    seconds: float | None
    """The duration, if it was measured."""
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerStep(Resource):
    """A step of a subgraph that a step of the run has called, directly or through one other subgraph."""

    id: str
    parent_id: str | None
    """The inner step that has called the subgraph; null if the step of the run has."""
    path: tuple[str, ...] = field(metadata={"examples": [["billing", "charge"]]})
    """The nodes that lead to it, from the step of the run to its own node."""
    superstep: int
    """The number of its superstep in the subgraph."""
    status: StepStatusName
    agent: str | None
    """The agent whose models and tools were called in it; null if there is none, or several."""
    started_at: datetime | None
    ended_at: datetime | None
    attempts: tuple[Attempt, ...]
    """The attempts, if one has failed; otherwise none."""
    calls: tuple[TracedCall, ...]
    """The calls of models and tools in it, and in what it has called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStep(Step):
    """A step with its attempts, waits and calls, the oldest first."""

    agent: str | None
    """The agent that the step has called; null if there is none, or several."""
    attempts: tuple[Attempt, ...]
    waits: tuple[PastWait, ...]
    calls: tuple[TracedCall, ...]
    inner_steps: tuple[InnerStep, ...]
    """The steps inside the subgraphs that it has called, the oldest first; of very many only the newest 200."""
    inner_count: int
    """The number of all steps inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Resource):
    """A time for which a run was due, and no worker advanced it."""

    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(Resource):
    """A page of the steps of a run, in their order, and what concerns the whole run."""

    workflow_run_id: str
    steps: tuple[TracedStep, ...]
    total_steps: int
    queued: tuple[Queued, ...]
    """The times in the queue. Only the first page has them."""
    last_event: int
    """The number of the last event that was read: the stream of the run continues after it."""
    complete: bool
    """False if the steps have more events, calls or inner steps than a page reads; the steps are complete even then."""
    next_cursor: str | None
    """The cursor of the next page; null for the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStates(Resource):
    """The state before and after the superstep of a step."""

    step_run_id: str
    superstep: int
    before: Any
    """Null if the checkpoint before the step no longer exists."""
    after: Any
    """Null if the superstep has not ended."""
    before_checkpoint_id: str | None
    after_checkpoint_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Resource):
    """The source of a graph."""

    language: Literal["yaml", "json", "python"]
    text: str
    file: str | None
    """The name of the file of a graph in Python."""
    lines: Mapping[str, int]
    """The line of each node, from 1, as far as it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram(Resource):
    """The nodes and edges of a graph. Those of subgraphs are in place of them, and their ids begin with `subgraph:`."""

    name: str
    nodes: tuple[Mapping[str, Any], ...]
    """`id`, `label`, and `kind`: `start`, `end`, `node`, `waiting`, `subgraph` or `unreachable`."""
    edges: tuple[Mapping[str, Any], ...]
    """`source`, `target`, `kind` (`plain`, `conditional`, `declared` or `join`) and `label`."""
