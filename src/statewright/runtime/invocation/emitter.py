"""Delivery of events: to the instruments of a run, and to the reader of its stream.

A run without an emitter makes no events, and an emitter wants only the kinds that have a receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from statewright.events import Event, EventKind
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument

Listener = Callable[[Event], None]


class EventEmitter:
    """Sends each event to the receivers of its kind."""

    def __init__(self, listeners: Iterable[tuple[EventKind, Listener]] = ()) -> None:
        self._by_kind: dict[str, list[Listener]] = {}
        for kind, listener in listeners:
            self.add(kind, listener)
        self.buffer: StreamBuffer | None = None
        """Stream parts that the reader has not taken yet; None without a reader."""

    def add(self, kind: EventKind, listener: Listener) -> None:
        self._by_kind.setdefault(kind, []).append(listener)

    def listeners(self) -> list[tuple[Any, Listener]]:
        """The receivers by kind of event."""
        return [(kind, one) for kind, known in self._by_kind.items() for one in known]

    def joined(self, listeners: Iterable[tuple[EventKind, Listener]]) -> EventEmitter:
        """Return an emitter that also sends to these listeners: those of a subgraph."""
        joined = EventEmitter([*self.listeners(), *listeners])
        joined.buffer = self.buffer
        return joined

    def wants(self, kind: EventKind) -> bool:
        if kind != "message":
            return kind in self._by_kind
        return any(getattr(one, "wanted", _always)() for one in self._by_kind.get(kind, ()))

    def emit(self, event: Event) -> None:
        for listener in self._by_kind.get(event.kind, ()):
            listener(event)


def _always() -> bool:
    return True


LIVE_PARTS: Final = 10_000
"""How many parts may wait for the reader before live ones are dropped."""


class StreamBuffer:
    """Parts on their way to the reader. Filled from any thread, emptied by one; the lists are swapped, not locked."""

    def __init__(self, *, live: bool, prompt: bool = False) -> None:
        self.live = live
        """True if parts should reach the reader while tasks run, even a task that runs alone."""
        self.prompt = live or prompt
        """True if they should while several tasks run concurrently."""
        self.parts: list[Any] = []
        self.dropped = 0
        """The number of live parts that were dropped because the reader was too slow."""
        self.wake: Callable[[], object] | None = None
        """Called after each added part, to wake a waiting reader."""
        self._waiters: list[Callable[[], object]] = []

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        """Keep a part for the reader. One that `may_drop` is dropped if the reader is far behind."""
        if may_drop and len(self.parts) >= LIVE_PARTS:
            self.dropped += 1
            return
        self.parts.append(part)
        wake = self.wake
        if wake is not None:
            wake()

    def take(self) -> list[Any]:
        """Remove and return all waiting parts."""
        taken, self.parts = self.parts, []
        for waiter in self._waiters:
            waiter()
        self._waiters.clear()
        return taken

    async def room(self) -> None:
        """Wait until the reader has taken the waiting parts."""
        import asyncio

        taken = asyncio.get_running_loop().create_future()
        self._waiters.append(lambda: taken.done() or taken.set_result(None))
        if self.parts:
            await taken


class Printed(StreamBuffer):
    """Prints parts instead of keeping them for a reader."""

    def __init__(self) -> None:
        super().__init__(live=False)

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        mode, shown = part
        print(f"[{mode}] {shown}")


def instrument_listeners(instruments: Sequence[Instrument]) -> list[tuple[Any, Listener]]:
    """Return the methods that instruments override, by kind of event."""
    return [
        (kind, _harmless(instrument, method))
        for instrument in instruments
        for kind, method in METHOD_BY_KIND.items()
        if getattr(type(instrument), method, getattr(Instrument, method)) is not getattr(Instrument, method)
    ]


def _harmless(instrument: Instrument, method: str) -> Listener:
    """Wrap a method of an instrument so that it cannot affect the run: its exceptions are logged."""
    call: Listener = getattr(instrument, method)

    def listen(event: Event) -> None:
        try:
            call(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            _log_failure(instrument, method, event)

    def wants() -> bool:
        try:
            return instrument.wants_messages()
        except Exception:
            _log_failure(instrument, "wants_messages", None)
            return False

    if method == "on_message":
        listen.wanted = wants  # pyright: ignore[reportFunctionMemberAccess]  # see Watch.wants
    return listen


def _log_failure(instrument: Instrument, method: str, event: Event | None) -> None:
    import logging  # few runs need it

    name = f"{type(instrument).__name__}.{method}"
    logging.getLogger("statewright").exception("An instrument failed: %s, told of %r.", name, event)
