"""Following the events of a run: a stream of server-sent events, resumed after the last received one if it breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from statewright.api.resource import LARGEST_PAGE
from statewright.api.runs import ENDED, Event, LiveEvent
from statewright.client.call import Call, Reply, get, path_of, read_data
from statewright.client.errors import error_of, unreachable
from statewright.client.flow import ConnectionLost, Flow, Open, Read, Sleep, Yield, pause_after, send
from statewright.client.settings import ClientSettings

_STABLE_AFTER: Final = 5.0
"""Seconds after which a connection that ends counts as the first failure again, even if it had no events."""
_BOM: Final = b"\xef\xbb\xbf"


class RunFollower:
    """Follows a run. Every event is yielded once, in order."""

    def __init__(self, run_id: str, after: int, settings: ClientSettings, *, live: bool = False) -> None:
        self._run_id = run_id
        self._last = after
        self._settings = settings
        self._failures = 0
        path = path_of("workflow-runs", run_id, "stream")
        self._call: Call[Any] = get(path, read_data, {"live": True} if live else {})

    def flow(self) -> Flow[None]:
        """Yield the events until the run has ended and all have been received."""
        while True:
            start = self._settings.clock.monotonic()
            try:
                pause = yield from self._listen()
            except ConnectionLost as lost:
                self._count_failure(start)
                if self._failures > self._settings.retries:
                    raise unreachable(self._call, self._settings.base_url, lost) from lost.__cause__
                yield Sleep(self._settings.pause(self._failures))
                continue
            if pause is not None:
                yield Sleep(pause)
            elif (yield from self._is_over()):
                return
            else:  # the server is stopping, or a proxy has closed a long stream
                self._count_failure(start)
                yield Sleep(self._settings.pause(min(self._failures, 5)))

    def _count_failure(self, start: float) -> None:
        was_stable = self._settings.clock.monotonic() - start > _STABLE_AFTER
        self._failures = 1 if was_stable else self._failures + 1

    def _listen(self) -> Flow[float | None]:
        """Yield the events of one connection. Return the pause before the next one if the service refused this one."""
        head: Reply = yield Open(self._call, str(self._last) if self._last else None)
        if head.status != 200:
            self._failures += 1
            pause = pause_after(head, self._settings, self._failures)
            if pause is None or self._failures > self._settings.retries:
                raise error_of(head, self._call)
            return pause
        parser = Parser()
        while piece := (yield Read()):
            for message in parser.feed(piece):
                yield from self._handle(message)
        return None

    def _handle(self, message: Message) -> Flow[None]:
        data = json.loads(message.data)
        if "seq" in data:
            yield from self._emit(Event.from_json(data))
        else:
            yield Yield(LiveEvent.from_json(data))

    def _emit(self, event: Event) -> Flow[None]:
        if event.seq <= self._last:
            return
        self._last, self._failures = event.seq, 0
        yield Yield(event)

    def _is_over(self) -> Flow[bool]:
        """Return True if the run has ended, after yielding its last events."""
        run: Any = yield from send(get(path_of("workflow-runs", self._run_id), read_data), self._settings)
        if run["status"] not in ENDED:
            return False
        while True:
            before = self._last
            for event in (yield from send(self._next_events(), self._settings)):
                yield from self._emit(event)
            if self._last == before:
                return True

    def _next_events(self) -> Call[list[Event]]:
        path = path_of("workflow-runs", self._run_id, "events")
        return get(path, Event.read_all, {"after": self._last, "pageSize": LARGEST_PAGE})


# -- server-sent events


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class Parser:
    """Parses pieces of a stream into messages."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_started = False
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yield the messages that end in this piece."""
        for line in self._lines(piece):
            if line:
                self._parse_line(line.decode("utf-8", "replace"))
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield complete lines, which end with CR, LF or both. A final CR is kept, because an LF may follow."""
        text = self._buffer + piece
        if not self._has_started and len(text) < len(_BOM) and _BOM.startswith(text):
            self._buffer = text
            return
        if not self._has_started:
            self._has_started, text = True, text.removeprefix(_BOM)
        ends_with_cr = text[-1:] == b"\r"
        text = (text[:-1] if ends_with_cr else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, remainder = text.split(b"\n")
        self._buffer = remainder + b"\r" if ends_with_cr else remainder
        yield from lines

    def _parse_line(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:  # a comment, or an unknown field
                pass

    def _dispatch(self) -> Message | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return Message(event or "message", "\n".join(data), self._id) if data else None
