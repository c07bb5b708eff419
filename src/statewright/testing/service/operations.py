"""What a test can do with a service: written once, blocking and awaited."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, cast, overload

from statewright.client.sync_async import Async, Sync
from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidRequest
from statewright.runs import ReceivedEvent, Run, RunEvent, StepRun, Wait
from statewright.service import StartRun
from statewright.testing.service.parts import WORKSPACE, ServiceParts
from statewright.testing.service.start import StartOptions

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", covariant=True)
Work = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


class _Operation(Generic[P, T]):
    """A method that blocks in a `TestService`, and is awaited in an `AsyncTestService`."""

    def __init__(self, work: Work[P, T]) -> None:
        self._work = work
        functools.update_wrapper(self, work)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, at: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, at: Operations[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, at: Operations[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, at: Any, owner: Any) -> Any:
        if at is None:
            return self

        @functools.wraps(self._work)
        def method(*args: Any, **kwargs: Any) -> Any:
            return at._call(self._work(at, *args, **kwargs))

        return method


class Operations(Generic[F]):
    """What a test can do with a service, and see of it."""

    def __init__(self, core: ServiceParts) -> None:
        self._core = core

    @property
    def clock(self) -> Any:
        """The clock of the service: `now()` is its time. Let it pass with `advance`, so that the service keeps up."""
        return self._core.clock

    # -- runs

    @_Operation
    async def start(
        self,
        graph: str | None = None,
        input: Any = None,  # noqa: A002  # what it is called everywhere
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run of a graph or definition; the run as far as it comes without time passing."""
        wanted = StartRun(graph=graph, input={} if input is None else input, **options)
        started = await self._core.service.start(WORKSPACE, wanted)
        return await self._core.settled(started.run)

    @_Operation
    async def run(self, run: Run | str) -> Run:
        """The run as it is now."""
        return await self._core.run(run)

    @_Operation
    async def run_to_rest(self, run: Run | str) -> Run:
        """The run once it has ended, is paused, or waits for somebody outside; time passes as far as it needs."""
        return await self._core.run_to_rest(run)

    @_Operation
    async def signal(self, run: Run | str, type: str, payload: Any = None) -> Run:  # noqa: A002
        """Send a signal to a run, which may be early."""
        await self._core.service.signal(WORKSPACE, _id(run), type, {} if payload is None else payload)
        return await self._core.settled(run)

    @_Operation
    async def answer(self, run: Run | str, value: Any) -> Run:
        """Answer the questions of a run: a map by their ids, or the one answer if there is one question."""
        questions = [wait.id for wait in await self._core.waits(run) if wait.kind == "question"]
        await self._core.service.answer(WORKSPACE, _id(run), _answers(questions, value))
        return await self._core.settled(run)

    @_Operation
    async def approve(self, run: Run | str, *, by: str | None = None) -> Run:
        """Agree to what a run wants to have agreed to."""
        return await self._decide(run, "approved", by)

    @_Operation
    async def reject(self, run: Run | str, *, by: str | None = None) -> Run:
        """Refuse what a run wants to have agreed to."""
        return await self._decide(run, "rejected", by)

    @_Operation
    async def edit(self, run: Run | str, content: Any, *, by: str | None = None) -> Run:
        """Agree to another content than the one that a run has shown."""
        return await self._decide(run, "edited", by, edited_content=content)

    async def _decide(self, run: Run | str, decision: str, by: str | None, **more: Any) -> Run:
        approval = await self._core.pending_approval(run)
        await self._core.service.decide(WORKSPACE, approval.id, decision, decided_by=by, **more)
        return await self._core.settled(run)

    @_Operation
    async def cancel(self, run: Run | str, reason: str | None = None) -> Run:
        """Cancel a run."""
        await self._core.service.cancel(WORKSPACE, _id(run), reason)
        return await self._core.settled(run)

    @_Operation
    async def pause(self, run: Run | str) -> Run:
        """Pause a run after its present step."""
        await self._core.service.pause(WORKSPACE, _id(run))
        return await self._core.settled(run)

    @_Operation
    async def resume(self, run: Run | str) -> Run:
        """Let a paused run go on."""
        await self._core.service.resume(WORKSPACE, _id(run))
        return await self._core.settled(run)

    @_Operation
    async def retry(self, run: Run | str) -> Run:
        """Try a failed run again, from the step that failed."""
        await self._core.service.retry(WORKSPACE, _id(run))
        return await self._core.settled(run)

    @_Operation
    async def send_event(self, name: str, payload: Any = None, *, key: str | None = None) -> ReceivedEvent:
        """Send an event to whoever waits for it or starts by it."""
        sent = await self._core.service.send_event(WORKSPACE, name, {} if payload is None else payload, key=key)
        await self._core.rest.settle()
        return sent

    # -- looking

    @_Operation
    async def steps(self, run: Run | str) -> Sequence[StepRun]:
        """The steps of a run."""
        return await self._core.service.steps(WORKSPACE, _id(run))

    @_Operation
    async def state(self, run: Run | str) -> Mapping[str, Any]:
        """The state of a run."""
        return await self._core.service.state(WORKSPACE, _id(run))

    @_Operation
    async def events(self, run: Run | str) -> Sequence[RunEvent]:
        """All that has happened to a run."""
        return await self._core.service.events(WORKSPACE, _id(run), limit=1_000_000)

    @_Operation
    async def waits(self, run: Run | str) -> Sequence[Wait]:
        """What a run waits for."""
        return await self._core.waits(run)

    # -- time

    @_Operation
    async def settle(self) -> None:
        """Wait until everything has happened that can happen without time passing.

        The other methods do this by themselves. Raises TimeoutError, which tells what is at work, if it takes long.
        """
        await self._core.rest.settle()

    @_Operation
    async def skip_to_next_timer(self) -> datetime | None:
        """Let time pass until something is due: a timer, a retry, a schedule, a message; None if nothing is.

        What was due has happened then.
        """
        return await self._core.skip()

    @_Operation
    async def advance(self, by: Duration) -> None:
        """Let time pass, in seconds if a number is given; what falls due meanwhile happens in its order."""
        seconds = as_seconds(by)
        if seconds < 0:
            raise ValueError(f"Time does not go back: {by!r}.")
        await self._core.rest.advance_to(self._core.clock.now() + timedelta(seconds=seconds))


def _id(run: Run | str) -> str:
    return run if isinstance(run, str) else run.id


def _answers(questions: Sequence[str], value: Any) -> dict[str, Any]:
    """Answers by the ids of questions. One value is for the one question."""
    if isinstance(value, Mapping):
        given = dict(cast("Mapping[str, Any]", value))
        if given and set(given) <= set(questions):
            return given
    if len(questions) != 1:
        raise InvalidRequest(f"{len(questions)} questions are open. Give the answers by their ids, as `waits` tells.")
    return {questions[0]: value}
