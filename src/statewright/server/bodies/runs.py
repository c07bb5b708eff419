"""Bodies about runs, their threads and approvals, and about events."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import Field, field_validator, model_validator

from statewright.api.runs import OnBusy, StatusName
from statewright.runs import RunStatus
from statewright.server.bodies.base import Body, Instant, JsonMap, Name, Tag, check_workflow
from statewright.service import RunFilter, StartRun

LONGEST_TIMEOUT = 10 * 366 * 86_400
"""The largest `timeout` of a run, in seconds: ten years."""

ThreadName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+$")]
"""A thread id that fits into one segment of a URL path."""


class RunSettings(Body):
    """What the calls of the run are given."""

    recursion_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    max_concurrency: int | None = Field(default=None, ge=1, le=10_000)
    durability: Literal["sync", "async"] | None = None
    context: JsonMap | None = None


class StartRunBody(Body):
    """A run to be started: of a stored definition, or of a graph that is served."""

    definition_id: Name | None = None
    graph: Name | None = None
    """The name under which a graph is served; its newest version is used."""
    input: Any = None
    """Kept as it is, and never changed. Nothing is the same as an empty map."""
    thread_id: ThreadName | None = None
    """The thread to advance; one of its own if none is given."""
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Sent again with the same key, the request gives the run that it gave before, and status 200."""
    on_busy: OnBusy = "reject"
    """What happens if another run has the thread."""
    after: Instant | None = None
    """The run does not begin before this instant."""
    timeout: float | None = Field(default=None, gt=0, le=LONGEST_TIMEOUT)
    """Seconds after which the run has failed."""
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    metadata: JsonMap = Field(default_factory=dict, max_length=50)
    concurrency_key: Name | None = None
    concurrency_limit: int | None = Field(default=None, ge=1, le=100_000)
    """Limit of concurrent runs with the same key."""
    settings: RunSettings = RunSettings()

    @model_validator(mode="after")
    def _check_workflow(self) -> StartRunBody:
        check_workflow(self)
        if self.concurrency_limit is not None and self.concurrency_key is None:
            raise ValueError("concurrencyLimit needs a concurrencyKey")
        return self

    def request(self) -> StartRun:
        """Return the body as a request to the service."""
        values = {name: getattr(self, name) for name in StartRunBody.model_fields if name not in ("settings", "input")}
        settings = self.settings.model_dump(by_alias=True, exclude_none=True)
        return StartRun(**values, settings=settings, input={} if self.input is None else self.input)


class FilterBody(Body):
    """Which runs are meant: those that fit everything that is given. At least one thing must be."""

    status: list[StatusName] = Field(default_factory=list[StatusName], max_length=7)
    graph: Name | None = None
    definition_id: Name | None = None
    thread_id: Name | None = None
    idempotency_key: Name | None = None
    parent_id: Name | None = None
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    metadata: dict[str, str] = Field(default_factory=dict[str, str], max_length=50)
    created_from: Instant | None = None
    created_to: Instant | None = None

    @field_validator("status", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [name.lower() if isinstance(name, str) else name for name in cast("list[Any]", value)]

    @model_validator(mode="after")
    def _check_not_empty(self) -> FilterBody:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("give at least one condition: an empty filter would match all runs")
        return self

    def filter(self) -> RunFilter:
        """Return the body as a filter of the service."""
        values = {name: getattr(self, name) for name in FilterBody.model_fields if name != "status"}
        return RunFilter(**values, status=[RunStatus(name) for name in self.status])


class ResumeBody(Body):
    """How a run goes on: a signal that it waits for, answers to its questions, or nothing if it is paused."""

    signal_type: Name | None = None
    payload: JsonMap | None = None
    """Becomes part of the state; names that begin with two underscores are refused."""
    answers: JsonMap | None = Field(default=None, min_length=1)
    """By the ids of `GET /interrupts`."""
    signal_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The sender's id for the signal: sent twice it counts once."""

    @model_validator(mode="after")
    def _check_combination(self) -> ResumeBody:
        if self.answers is not None and self.signal_type is not None:
            raise ValueError("give either signalType or answers")
        if self.signal_type is None and (self.payload is not None or self.signal_id is not None):
            raise ValueError("payload and signalId need a signalType")
        return self


class SignalBody(Body):
    """A signal for a run, which is kept until a step waits for it."""

    signal_type: Name
    payload: JsonMap = Field(default_factory=dict)
    signal_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None


class CancelBody(Body):
    """Why a run is cancelled."""

    reason: Annotated[str, Field(max_length=1000)] | None = None


class DecideBody(Body):
    """A decision."""

    decision: Literal["approved", "rejected", "edited"]
    edited_content: Any = None
    """What takes the place of the content; required if the decision is `edited`."""
    decided_by: Annotated[str, Field(max_length=200)] | None = None
    """A note about who has decided, kept beside the key with which the request came."""

    @model_validator(mode="after")
    def _check_content(self) -> DecideBody:
        has_content = "edited_content" in self.model_fields_set
        if (self.decision == "edited") != has_content:
            raise ValueError("editedContent is required for the decision 'edited', and not allowed for others")
        return self


class SendEventBody(Body):
    """An event for whoever waits for it, or starts by it."""

    name: Name
    payload: JsonMap = Field(default_factory=dict)
    key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The sender's id, which makes sending it idempotent."""


class ForkBody(Body):
    """A branch that begins at a checkpoint."""

    checkpoint_id: Name
    branch: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")] | None = None
    """How the branch is called; without a name the checkpoint becomes the head of its own branch again."""


class UpdateThreadBody(Body):
    """A change of the state, as if a node had made it."""

    values: Any = None
    as_node: Name | None = None
    checkpoint_id: Name | None = None
    """Where to begin from; the head of the thread if none is given."""

    @model_validator(mode="after")
    def _check_values(self) -> UpdateThreadBody:
        if "values" not in self.model_fields_set:
            raise ValueError("values are required")
        return self
