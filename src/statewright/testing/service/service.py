"""A service that runs in the process of a test, with a clock that can skip to the next timer.

Each call returns when the service is idle, which means that nothing more can happen until time passes or input arrives.
A test therefore reads like a sequential program: start a run, inspect it, let a year pass, inspect it again. Operations
are coroutines on the event loop of the service. Each is defined once, and `_Operation` makes a blocking and an async
method of it.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from statewright.async_futures import aresolve
from statewright.client.sync_async import Async, Sync
from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidRequest
from statewright.runs import ENDED, Approval, ReceivedEvent, Run, RunEvent, RunStatus, StepRun, Wait, where
from statewright.service import Catalog, ServiceSettings, StartRun
from statewright.service.webhooks import WebhookSettings
from statewright.testing.service.idle import PATIENCE
from statewright.testing.service.parts import URL, WORKSPACE, ServiceParts
from statewright.workflow.steps import Handlers, StepTools

if TYPE_CHECKING:
    from statewright.client import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", covariant=True)
"""Sync or Async: whether the methods block or return coroutines."""


class StartOptions(TypedDict, total=False):
    """Options of `start` in addition to the graph and the input; see `statewright.service.StartRun`."""

    definition_id: str | None
    thread_id: str | None
    idempotency_key: str | None
    on_busy: str
    after: datetime | None
    timeout: float | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    concurrency_key: str | None
    concurrency_limit: int | None
    settings: Mapping[str, Any]


class _Operation(Generic[P, T]):
    """A method that blocks in a `TestService`, and is a coroutine function in an `AsyncTestService`."""

    def __init__(self, coroutine_function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._coroutine_function = coroutine_function
        functools.update_wrapper(self, coroutine_function)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Operations[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Operations[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self

        @functools.wraps(self._coroutine_function)
        def method(*args: Any, **kwargs: Any) -> Any:
            return instance._call(self._coroutine_function(instance, *args, **kwargs))

        return method


class Operations(Generic[F]):
    """The operations of `TestService` (F is Sync) and `AsyncTestService` (F is Async)."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts

    @property
    def clock(self) -> Any:
        """The clock of the service: `now()` returns its current time. Advance it only with methods of this service."""
        return self._parts.clock

    # -- runs

    @_Operation
    async def start(
        self,
        graph: str | None = None,
        input: Any = None,  # noqa: A002  # the whole API uses this name
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run of a graph or definition, and return it once the service is idle."""
        request = StartRun(graph=graph, input={} if input is None else input, **options)
        started = await self._parts.service.start(WORKSPACE, request)
        return await self._load_when_idle(started.run)

    @_Operation
    async def run(self, run: Run | str) -> Run:
        """Return the current record of a run."""
        return await self._parts.service.run(WORKSPACE, _id_of(run))

    @_Operation
    async def run_to_rest(self, run: Run | str) -> Run:
        """Let time pass until a run has ended, is paused, or is waiting for something other than a timer.

        Return its record.
        """
        while True:
            current = await self._load_when_idle(run)
            if current.status in ENDED or current.status is RunStatus.PAUSED:
                return current
            if any(wait.kind != "timer" for wait in await self._list_waits(run)):
                return current
            if await self._skip() is None:
                return current

    @_Operation
    async def signal(self, run: Run | str, type: str, payload: Any = None) -> Run:  # noqa: A002
        """Send a signal to a run, which need not be waiting for it yet."""
        await self._parts.service.signal(WORKSPACE, _id_of(run), type, {} if payload is None else payload)
        return await self._load_when_idle(run)

    @_Operation
    async def answer(self, run: Run | str, value: Any) -> Run:
        """Answer the open questions of a run.

        `value` is a dict of answers by the ids of questions, or the answer to the only open question. Raises
        InvalidRequest if it is neither.
        """
        questions = [wait.id for wait in await self._list_waits(run) if wait.kind == "question"]
        await self._parts.service.answer(WORKSPACE, _id_of(run), _answers(questions, value))
        return await self._load_when_idle(run)

    @_Operation
    async def approve(self, run: Run | str, *, by: str | None = None) -> Run:
        """Approve the pending approval of a run. Raises InvalidRequest unless there is exactly one."""
        return await self._decide(run, "approved", by)

    @_Operation
    async def reject(self, run: Run | str, *, by: str | None = None) -> Run:
        """Reject the pending approval of a run. Raises InvalidRequest unless there is exactly one."""
        return await self._decide(run, "rejected", by)

    @_Operation
    async def edit(self, run: Run | str, content: Any, *, by: str | None = None) -> Run:
        """Approve the pending approval of a run, with edited content. Raises InvalidRequest as `approve` does."""
        return await self._decide(run, "edited", by, edited_content=content)

    async def _decide(self, run: Run | str, decision: str, by: str | None, **content: Any) -> Run:
        condition = where(run_id=_id_of(run), decision=None)
        approvals: Sequence[Approval] = await aresolve(self._parts.ledger.find(Approval, condition))
        if len(approvals) != 1:
            raise InvalidRequest(
                f"Run {_id_of(run)} is waiting for {len(approvals)} approvals, not for one. If there are several, "
                f"decide each of them by its id, with `service.client.approvals`."
            )
        await self._parts.service.decide(WORKSPACE, approvals[0].id, decision, decided_by=by, **content)
        return await self._load_when_idle(run)

    @_Operation
    async def cancel(self, run: Run | str, reason: str | None = None) -> Run:
        """Cancel a run."""
        await self._parts.service.cancel(WORKSPACE, _id_of(run), reason)
        return await self._load_when_idle(run)

    @_Operation
    async def pause(self, run: Run | str) -> Run:
        """Pause a run after its current superstep."""
        await self._parts.service.pause(WORKSPACE, _id_of(run))
        return await self._load_when_idle(run)

    @_Operation
    async def resume(self, run: Run | str) -> Run:
        """Resume a paused run."""
        await self._parts.service.resume(WORKSPACE, _id_of(run))
        return await self._load_when_idle(run)

    @_Operation
    async def retry(self, run: Run | str) -> Run:
        """Retry a failed run from the step that failed."""
        await self._parts.service.retry(WORKSPACE, _id_of(run))
        return await self._load_when_idle(run)

    @_Operation
    async def send_event(self, name: str, payload: Any = None, *, key: str | None = None) -> ReceivedEvent:
        """Send an event to the runs that are waiting for it, and start the graphs that it triggers."""
        event = await self._parts.service.send_event(WORKSPACE, name, {} if payload is None else payload, key=key)
        await self._parts.idle.settle()
        return event

    # -- records of a run

    @_Operation
    async def steps(self, run: Run | str) -> Sequence[StepRun]:
        """Return the steps of a run."""
        return await self._parts.service.steps(WORKSPACE, _id_of(run))

    @_Operation
    async def state(self, run: Run | str) -> Mapping[str, Any]:
        """Return the state of a run."""
        return await self._parts.service.state(WORKSPACE, _id_of(run))

    @_Operation
    async def events(self, run: Run | str) -> Sequence[RunEvent]:
        """Return all events of a run."""
        return await self._parts.service.events(WORKSPACE, _id_of(run), limit=1_000_000)

    @_Operation
    async def waits(self, run: Run | str) -> Sequence[Wait]:
        """Return the open waits of a run."""
        return await self._list_waits(run)

    # -- time

    @_Operation
    async def settle(self) -> None:
        """Wait until the service is idle, as all other methods do before they return.

        Raises TimeoutError, with a message that names the running nodes, if that takes too long.
        """
        await self._parts.idle.settle()

    @_Operation
    async def skip_to_next_timer(self) -> datetime | None:
        """Let time pass until the next timer, retry, schedule or delivery is due, and do all work that is due then.

        Return the time at which it was due; None if nothing is waiting for a time.
        """
        return await self._skip()

    @_Operation
    async def advance(self, by: Duration) -> None:
        """Let a duration pass, and do the work that falls due meanwhile, in order.

        Raises ValueError for a negative duration.
        """
        seconds = as_seconds(by)
        if seconds < 0:
            raise ValueError(f"Time cannot go back: {by!r}.")
        await self._parts.idle.advance_to(self._parts.clock.now() + timedelta(seconds=seconds))

    # -- coroutines that several operations share

    async def _load_when_idle(self, run: Run | str) -> Run:
        """Return the record of a run once the service is idle."""
        await self._parts.idle.settle()
        return await self._parts.service.run(WORKSPACE, _id_of(run))

    async def _list_waits(self, run: Run | str) -> Sequence[Wait]:
        return await aresolve(self._parts.ledger.find(Wait, where(run_id=_id_of(run))))

    async def _skip(self) -> datetime | None:
        """Implement `skip_to_next_timer`, for other operations too."""
        await self._parts.idle.settle()
        instant = await self._parts.idle.next_instant()
        if instant is not None:
            self._parts.clock.jump_to(instant)
            await self._parts.idle.settle()
        return instant


def _id_of(run: Run | str) -> str:
    """Return the id of a run, passed as its record or as its id."""
    return run if isinstance(run, str) else run.id


def _answers(questions: Sequence[str], value: Any) -> dict[str, Any]:
    """Return the answers in a value, by the ids of the questions.

    A value that is not a mapping from these ids is the answer to the only question.
    """
    if isinstance(value, Mapping):
        answers = dict(cast("Mapping[str, Any]", value))
        if answers and set(answers) <= set(questions):
            return answers
    if len(questions) != 1:
        raise InvalidRequest(
            f"{len(questions)} questions are open. Pass a dict of answers by the ids of the questions; see `waits`."
        )
    return {questions[0]: value}


class TestService(Operations[Sync]):
    """A service for tests. In a `with` block its methods block; `async with` yields an `AsyncTestService`.

    Data is stored in the SQLite file at `path`, or in memory if `path` is None. The clock starts at `start`, and time
    passes only in `advance`, `skip_to_next_timer` and `run_to_rest`. Task steps of definitions call `handlers`, llm
    steps call `models`, and these models can call `tools`. A call raises TimeoutError if the service is not idle within
    `patience` real seconds. Other keyword arguments are passed to `Service`: `store`, `instruments`, `logs`.
    """

    __test__: ClassVar[bool] = False

    def __init__(
        self,
        graphs: Mapping[str, Any] | None = None,
        *,
        handlers: Handlers | Mapping[str, Any] | None = None,
        definitions: Sequence[Any] = (),
        models: Any = None,
        tools: StepTools = None,
        path: str | os.PathLike[str] | None = None,
        start: datetime | None = None,
        settings: ServiceSettings | None = None,
        webhooks: WebhookSettings | None = None,
        patience: float = PATIENCE,
        **service_options: Any,
    ) -> None:
        catalog = Catalog(
            handlers=handlers if isinstance(handlers, Handlers) else Handlers(handlers), models=models, tools=tools
        )
        for name, graph in (graphs or {}).items():
            catalog.serve(name, graph)
        for definition in definitions:
            catalog.serve_steps(definition)
        options = {**service_options, "settings": settings, "webhooks": webhooks}
        super().__init__(ServiceParts(catalog, path=path, start=start, patience=patience, options=options))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._parts.thread.submit(coroutine).result()

    @functools.cached_property
    def client(self) -> Client:
        """An HTTP client of the service that uses no socket. Its methods return once the service is idle."""
        from statewright.client import Client

        return Client(URL, transport=self._call(self._parts.transport()))

    def __enter__(self) -> Self:
        self._parts.thread.start()
        self._call(self._parts.open())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._parts.close())
        finally:
            self._parts.release()

    async def __aenter__(self) -> AsyncTestService:
        self._parts.thread.start()
        await asyncio.wrap_future(self._parts.thread.submit(self._parts.open()))
        return AsyncTestService(self._parts)

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.wrap_future(self._parts.thread.submit(self._parts.close()))
        finally:
            await asyncio.to_thread(self._parts.release)


class AsyncTestService(Operations[Async]):
    """A service for tests with async methods, which `async with TestService(...)` yields."""

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._parts.thread.submit(coroutine))

    @functools.cached_property
    def client(self) -> AsyncClient:
        """An HTTP client of the service that uses no socket. Its methods return once the service is idle."""
        from statewright.client import AsyncClient

        return AsyncClient(URL, transport=self._parts.thread.submit(self._parts.transport()).result())
