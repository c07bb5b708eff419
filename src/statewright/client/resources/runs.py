"""Runs, with the methods that start, read, follow and control them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, Unpack

from statewright.api.runs import (
    LONGEST_WAIT,
    Cost,
    Event,
    EventBase,
    Log,
    ModelCall,
    OnBusy,
    Run,
    RunCounts,
    RunIds,
    RunWithSteps,
    StartedRun,
    Step,
)
from statewright.api.traces import StepStates, Trace
from statewright.client.call import Call, api_path, get, post, read_data, to_camel_case
from statewright.client.follow import RunFollower, RunListFollower
from statewright.client.send import Page, get_page
from statewright.client.sync_async import F, IteratingMethod, Method, Namespace, request
from statewright.data.mappings import without_none
from statewright.errors import InvalidRequest
from statewright.ids import new_run_id

_RUNS: Final = "workflow-runs"


class StateEdit(TypedDict, total=False):
    """A change of the state, as if a node had returned the values."""

    values: Mapping[str, Any]
    overwrite: Sequence[str]
    """The fields whose values replace those in the state, instead of being passed to their reducers."""
    as_node: str | None


class Fork(TypedDict, total=False):
    """A checkpoint of a thread from which a run goes on, on a thread of its own."""

    thread_id: str
    checkpoint_id: str
    edit: StateEdit | None
    """A change of the state before the run goes on."""


class StartOptions(TypedDict, total=False):
    """Options for starting a run."""

    definition_id: str | None
    fork: Fork | None
    """The run goes on from a checkpoint instead of beginning with an input."""
    thread_id: str | None
    """The thread to advance; a new one by default."""
    idempotency_key: str | None
    """A second request with the same key returns the run that the first one has started. Random by default."""
    on_busy: OnBusy
    after: datetime | None
    """The run does not begin before this instant."""
    timeout: float | None
    """Seconds after its creation at which the run fails if it has not ended."""
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    concurrency_key: str | None
    concurrency_limit: int | None
    queue: str | None
    """The queue from which workers claim the run; by default that of its tags or of its graph."""
    priority: int
    """Of the due runs of a queue, those with the lowest number begin first; 0 by default."""
    recursion_limit: int | None
    max_concurrency: int | None
    durability: Literal["sync", "async"] | None
    context: Mapping[str, Any] | None


SETTINGS: Final = frozenset({"recursion_limit", "max_concurrency", "durability", "context"})
"""The options that the API expects under `settings`."""


class RunFilter(TypedDict, total=False):
    """A filter for runs. A run must meet all conditions."""

    status: Sequence[str]
    """The run has one of these statuses."""
    graph: str | None
    definition_id: str | None
    thread_id: str | None
    parent_id: str | None
    idempotency_key: str | None
    queue: str | None
    dead: bool
    """True for runs that were set aside, because worker after worker was lost while it advanced them."""
    tags: Sequence[str]
    """The run has all of these tags."""
    any_tags: Sequence[str]
    """The run has at least one of these tags."""
    text: str | None
    """The id, thread, graph, idempotency key, a tag or a metadata value of the run contains this text."""
    metadata: Mapping[str, str]
    """The metadata of the run has all of these entries."""
    created_from: datetime | None
    created_to: datetime | None
    """The run was created before this instant."""


class Runs(Namespace[F]):
    """Runs of the workspace."""

    @request
    def start(
        self,
        graph: str | None = None,
        input: Any = None,  # noqa: A002  # the name that graphs and the API use
        *,
        wait: float | None = None,
        live: bool = False,
        **options: Unpack[StartOptions],
    ) -> Call[StartedRun]:
        """Start a run of a served graph, or of a stored definition.

        With `wait`, return as soon as the run has ended, is waiting or is paused, or else after this many seconds.
        With `live`, models stream their messages from the beginning, for a `follow` with `live` that begins within ten
        seconds.
        Without an `idempotency_key`, a random key is sent. So if the answer is lost, the request can be repeated
        without starting a second run.
        """
        return _start(graph, input, wait, options, live=live)

    @Method
    async def start_and_wait(
        self,
        graph: str | None = None,
        input: Any = None,  # noqa: A002
        *,
        seconds: float = LONGEST_WAIT,
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run, and wait until it has ended, is waiting or is paused, but at most `seconds`. Return the run."""
        deadline = self._connection.settings.clock.monotonic() + seconds
        run = await self._send(_start(graph, input, min(seconds, LONGEST_WAIT), options))
        return run if run.is_at_rest and run.created else await self._wait_until_idle(run.id, deadline)

    @Method
    async def wait(self, run_id: str, seconds: float = LONGEST_WAIT) -> Run:
        """Wait until a run has ended, is waiting or is paused, but at most `seconds`. Return the run."""
        return await self._wait_until_idle(run_id, self._connection.settings.clock.monotonic() + seconds)

    async def _wait_until_idle(self, run_id: str, deadline: float) -> Run:
        while True:
            remaining = deadline - self._connection.settings.clock.monotonic()
            run = await self._send(_get(run_id, max(0.0, min(remaining, LONGEST_WAIT))))
            if remaining <= 0 or run.is_at_rest:
                return run

    @request
    def get(self, run_id: str) -> Call[RunWithSteps]:
        """Return a run with its steps, in the order in which they started."""
        return _get(run_id)

    @request
    def list(
        self,
        *,
        page: int = 1,
        page_size: int = 20,
        sort: str = "-createdAt",
        brief: bool = False,
        **filters: Unpack[RunFilter],
    ) -> Call[Page[Run]]:
        """Return a page of the matching runs, the newest first by default; with `brief` without inputs and outputs.

        `sort` is `createdAt`, `updatedAt`, `startedAt` or `status`, with a leading minus for descending order.
        """
        query = _to_query(filters)
        return get_page(api_path(_RUNS), Run.from_json, page=page, page_size=page_size, sort=sort, brief=brief, **query)

    @request
    def histogram(
        self, start: datetime, end: datetime, *, periods: int = 96, **filters: Unpack[RunFilter]
    ) -> Call[Sequence[RunCounts]]:
        """Divide the time from `start` until before `end` into equal periods. Return for each the number of matching
        runs that were created in it, by status.
        """
        query = {"from": start, "to": end, "periods": periods, **_to_query(filters)}
        return get(api_path(_RUNS, "histogram"), RunCounts.read_all, query)

    @request
    def trace(self, run_id: str, *, cursor: str | None = None, limit: int = 100) -> Call[Trace]:
        """Return steps of a run, with their attempts, waits and calls, and with the steps inside subgraphs.

        `cursor` is the `next_cursor` of the page before, and `limit` the number of steps, at most 1000.
        """
        return get(api_path(_RUNS, run_id, "trace"), Trace.from_response, {"cursor": cursor, "limit": limit})

    @request
    def step_states(self, run_id: str, step_id: str) -> Call[StepStates]:
        """Return the state before and after the superstep of a step."""
        return get(api_path(_RUNS, run_id, "steps", step_id, "state"), StepStates.from_response)

    @IteratingMethod
    def iterate(self, *, sort: str = "-createdAt", **filters: Unpack[RunFilter]) -> AsyncGenerator[Run]:
        """Iterate over all matching runs, which are read page by page. `sort` is the same as in `list`."""
        return self._iter_all(api_path(_RUNS), Run.from_json, sort=sort, **_to_query(filters))

    @request
    def steps(self, run_id: str) -> Call[Sequence[Step]]:
        """Return the steps of a run."""
        return get(api_path(_RUNS, run_id, "steps"), Step.read_all)

    @request
    def state(self, run_id: str) -> Call[Mapping[str, Any]]:
        """Return the current state of a run."""
        return get(api_path(_RUNS, run_id, "state"), read_data)

    @request
    def model_calls(self, run_id: str) -> Call[Sequence[ModelCall]]:
        """Return the model calls of a run."""
        return get(api_path(_RUNS, run_id, "llm-calls"), ModelCall.read_all)

    @request
    def logs(self, run_id: str, *, step: str | None = None) -> Call[Sequence[Log]]:
        """Return the captured logs of the steps of a run, or only of the steps named `step`."""
        return get(api_path(_RUNS, run_id, "logs"), Log.read_all, {"step": step})

    @request
    def cost(self, run_id: str) -> Call[Cost]:
        """Return the cost of a run."""
        return get(api_path(_RUNS, run_id, "cost"), Cost.from_response)

    @request
    def events(self, run_id: str, *, after: int = 0, page: int = 1, page_size: int = 20) -> Call[Page[Event]]:
        """Return a page of the events of a run after a sequence number, the oldest first."""
        path = api_path(_RUNS, run_id, "events")
        return get_page(path, Event.from_json, page=page, page_size=page_size, after=after)

    @IteratingMethod
    def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """Iterate over the events of a run after a sequence number, as they occur, until the run has ended.

        Every event is yielded once, in order. If the stream breaks, it is resumed after the last received event.
        """
        return RunFollower(run_id, after, self._connection).events()

    @IteratingMethod
    def watch(self, run_id: str, *, after: int = 0) -> AsyncGenerator[EventBase]:
        """Iterate over the events of a run like `follow`, and over live events, too, such as pieces of messages.

        A `LiveEvent` is not stored. So live events that occur while the connection is broken are lost.
        """
        return RunFollower(run_id, after, self._connection, live=True).events()

    @IteratingMethod
    def changes(self) -> AsyncGenerator[Run]:
        """Iterate over the runs of the workspace as they change, without end, and without their inputs and outputs.

        Each run is yielded in its newest state, within about a second; states in between may be skipped. If the stream
        breaks, it is resumed, and the changes that were missed meanwhile are yielded.
        """
        return RunListFollower(self._connection).events()

    @request
    def cancel(self, run_id: str, reason: str | None = None) -> Call[Run]:
        """Cancel a run."""
        body = None if reason is None else {"reason": reason}
        return post(api_path(_RUNS, run_id, "cancel"), Run.from_response, body)

    @request
    def pause(self, run_id: str) -> Call[Run]:
        """Pause a run after its current superstep."""
        return post(api_path(_RUNS, run_id, "pause"), Run.from_response)

    @request
    def resume(
        self,
        run_id: str,
        signal_type: str | None = None,
        payload: Mapping[str, Any] | None = None,
        *,
        signal_id: str | None = None,
    ) -> Call[Run]:
        """Resume a paused run, or a waiting run with the signal for which it waits.

        Raises SignalMismatch if the run waits for another signal. To send a signal before the run waits for it, use
        `signal`.
        """
        if signal_type is None:
            return post(api_path(_RUNS, run_id, "resume"), Run.from_response)
        return _signal(run_id, "resume", signal_type, payload, signal_id)

    @request
    def signal(
        self, run_id: str, signal_type: str, payload: Mapping[str, Any] | None = None, *, signal_id: str | None = None
    ) -> Call[Run]:
        """Send a signal to a run. The signal is stored until a step waits for it.

        A second signal with the same `signal_id` has no effect.
        """
        return _signal(run_id, "signals", signal_type, payload, signal_id)

    @request
    def answer(self, run_id: str, answers: Mapping[str, Any]) -> Call[Run]:
        """Answer questions of a run, by their ids from `interrupts.list`."""
        return post(api_path(_RUNS, run_id, "resume"), Run.from_response, {"answers": answers})

    @request
    def retry(self, run_id: str) -> Call[Run]:
        """Retry a failed run from the step that failed."""
        return post(api_path(_RUNS, run_id, "retry"), Run.from_response)

    @request
    def cancel_all(self, **filters: Unpack[RunFilter]) -> Call[Sequence[str]]:
        """Cancel the matching runs that have not ended, at most 1000, and return their ids."""
        return post(api_path(_RUNS, "cancel"), _run_ids, to_camel_case(without_none(filters)))

    @request
    def retry_all(self, **filters: Unpack[RunFilter]) -> Call[Sequence[str]]:
        """Retry the matching runs that have failed, at most 1000, and return the ids of the runs that are retried."""
        return post(api_path(_RUNS, "retry"), _run_ids, to_camel_case(without_none(filters)))


def _start(
    graph: str | None, values: Any, wait: float | None, options: StartOptions, *, live: bool = False
) -> Call[StartedRun]:
    """Return the request that starts a run, with `values` as its input."""
    if wait is not None and not 0 <= wait <= LONGEST_WAIT:
        raise InvalidRequest(f"wait={wait!r}: the service waits for 0 to {LONGEST_WAIT} seconds. See start_and_wait.")
    fields = without_none({"graph": graph, "idempotency_key": f"drawn_{new_run_id()}", **without_none(options)})
    body = to_camel_case({name: value for name, value in fields.items() if name not in SETTINGS})
    fork = options.get("fork")
    if fork is not None:
        edit = fork.get("edit")
        body["fork"] = to_camel_case({**fork, "edit": to_camel_case(without_none(edit)) if edit is not None else None})
    settings = {name: value for name, value in fields.items() if name in SETTINGS}
    if settings:
        body["settings"] = to_camel_case(settings)
    params = [] if wait is None else [("wait", f"{wait:g}")]
    if live:
        params.append(("live", "true"))
    return post(
        api_path(_RUNS),
        StartedRun.from_response,
        {**body, "input": values},
        params=params,
        max_wait=wait or 0.0,
        repeatable=True,
    )


def _get(run_id: str, wait: float = 0.0) -> Call[RunWithSteps]:
    """Return a request for a run. The service answers as soon as the run is idle, or else after `wait` seconds."""
    params = {"wait": f"{wait:g}"} if wait else None
    return get(api_path(_RUNS, run_id), RunWithSteps.from_response, params, max_wait=wait)


def _to_query(filters: RunFilter) -> dict[str, Any]:
    """Convert a filter to query parameters."""
    conditions: dict[str, Any] = dict(filters)
    metadata: Mapping[str, str] = conditions.pop("metadata", {})
    tags, any_tags = conditions.pop("tags", ()), conditions.pop("any_tags", ())
    params = to_camel_case({**conditions, "tag": tags, "any_tag": any_tags})
    return params | {f"metadata[{name}]": value for name, value in metadata.items()}


def _signal(
    run_id: str, action: str, signal_type: str, payload: Mapping[str, Any] | None, signal_id: str | None
) -> Call[Run]:
    body = without_none({"signal_type": signal_type, "payload": payload or {}, "signal_id": signal_id})
    path = api_path(_RUNS, run_id, action)
    return post(path, Run.from_response, to_camel_case(body), repeatable=signal_id is not None)


def _run_ids(answer: Any) -> Sequence[str]:
    return list(RunIds.from_response(answer).run_ids)
