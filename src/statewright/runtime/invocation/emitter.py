"""Delivery of events to the instruments of a run and to the reader of its stream.

An event without a listener costs nothing, because it is not created: a run without listeners has no emitter, and
otherwise `EventEmitter.wants` is asked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from statewright.events import Event, EventKind
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument

Listener = Callable[[Event], None]


class EventEmitter:
    """Sends each event to the listeners for its kind."""

    def __init__(self, listeners: Iterable[tuple[EventKind, Listener]] = ()) -> None:
        self._by_kind: dict[str, list[Listener]] = {}
        for kind, listener in listeners:
            self.add(kind, listener)
        self.buffer: StreamBuffer | None = None
        """The stream parts that the reader has not taken yet; None if nothing reads the stream."""

    def add(self, kind: EventKind, listener: Listener) -> None:
        """Call `listener` with each event of a kind."""
        self._by_kind.setdefault(kind, []).append(listener)

    def listeners(self) -> list[tuple[Any, Listener]]:
        """Return pairs of a kind of event and a listener for it."""
        return [(kind, listener) for kind, listeners in self._by_kind.items() for listener in listeners]

    def with_listeners(self, listeners: Iterable[tuple[EventKind, Listener]]) -> EventEmitter:
        """Return an emitter with the same buffer and additional listeners, e.g. the instruments of a subgraph."""
        emitter = EventEmitter([*self.listeners(), *listeners])
        emitter.buffer = self.buffer
        return emitter

    def wants(self, kind: EventKind) -> bool:
        """Return whether an event of this kind has a listener."""
        if kind != "message":
            return kind in self._by_kind
        return any(getattr(listener, "wants_events", _always)() for listener in self._by_kind.get(kind, ()))

    def emit(self, event: Event) -> None:
        for listener in self._by_kind.get(event.kind, ()):
            listener(event)


def _always() -> bool:
    return True


MAX_UNREAD_PARTS: Final = 10_000
"""When this many parts are unread, further parts are dropped if they may be."""


class StreamBuffer:
    """Stream parts that the reader has not taken yet.

    Any thread may add parts, and a single thread takes them. Instead of locking the list, `take` replaces it.
    """

    def __init__(self, *, during_tasks: bool, during_supersteps: bool = False) -> None:
        self.flushes_during_tasks = during_tasks
        """True if parts must reach the reader while a task is running, even if it is the only task of its superstep."""
        self.flushes_during_supersteps = during_tasks or during_supersteps
        """True if parts must reach the reader while a superstep of several tasks is running."""
        self.parts: list[Any] = []
        self.dropped = 0
        """The number of parts that were dropped because the reader was too slow."""
        self.wake: Callable[[], object] | None = None
        """Called after a part was added, to wake a reader that waits; None if no reader waits."""
        self._waiters: list[Callable[[], object]] = []
        """Called once the reader has taken the parts; see `wait_until_read`."""

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        """Add a part. With `may_drop`, drop it if MAX_UNREAD_PARTS parts are unread."""
        if may_drop and len(self.parts) >= MAX_UNREAD_PARTS:
            self.dropped += 1
            return
        self.parts.append(part)
        wake = self.wake
        if wake is not None:
            wake()

    def take(self) -> list[Any]:
        """Remove and return all unread parts."""
        parts, self.parts = self.parts, []
        for waiter in self._waiters:
            waiter()
        self._waiters.clear()
        return parts

    async def wait_until_read(self) -> None:
        """Wait on the running event loop until the reader has taken the unread parts."""
        import asyncio

        emptied = asyncio.get_running_loop().create_future()
        self._waiters.append(lambda: emptied.done() or emptied.set_result(None))
        if self.parts:
            await emptied


class PrintingBuffer(StreamBuffer):
    """Prints parts instead of storing them for a reader."""

    def __init__(self) -> None:
        super().__init__(during_tasks=False)

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        mode, data = part
        print(f"[{mode}] {data}")


def instrument_listeners(instruments: Sequence[Instrument]) -> list[tuple[Any, Listener]]:
    """Return pairs of a kind of event and a listener: one for each method that an instrument overrides."""
    return [
        (kind, _without_errors(instrument, method))
        for instrument in instruments
        for kind, method in METHOD_BY_KIND.items()
        if getattr(type(instrument), method, getattr(Instrument, method)) is not getattr(Instrument, method)
    ]


def _without_errors(instrument: Instrument, method: str) -> Listener:
    """Return a listener that calls a method of an instrument.

    Exceptions of the method are logged, because they must not affect the run.
    """
    call: Listener = getattr(instrument, method)

    def listen(event: Event) -> None:
        try:
            call(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            _log_failure(instrument, method, event)

    def wants_messages() -> bool:
        try:
            return instrument.wants_messages()
        except Exception:
            _log_failure(instrument, "wants_messages", None)
            return False

    if method == "on_message":
        listen.wants_events = wants_messages  # pyright: ignore[reportFunctionMemberAccess]  # read by EventEmitter.wants
    return listen


def _log_failure(instrument: Instrument, method: str, event: Event | None) -> None:
    import logging  # here, because few runs need it

    name = f"{type(instrument).__name__}.{method}"
    logging.getLogger("statewright").exception("An instrument failed: %s, called with %r.", name, event)
