"""Following runs by streams of server-sent events. A broken stream is resumed after the last received event."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from statewright.api.resource import MAX_PAGE_SIZE
from statewright.api.runs import ENDED, Event, LiveEvent, Run
from statewright.client.call import Call, Reply, api_path, get, read_data
from statewright.client.connection import Connection, ConnectionLost
from statewright.client.errors import make_error, make_unreachable_error
from statewright.client.send import pause_after, send

_STABLE_AFTER: Final = 5.0
"""Seconds after which a connection is considered stable. When it breaks, the count of failures starts again at 1."""
_BOM: Final = b"\xef\xbb\xbf"


class Follower:
    """Reads a stream, and opens it again when it breaks."""

    def __init__(self, call: Call[Any], connection: Connection) -> None:
        self._call = call
        self._connection = connection
        self._settings = connection.settings
        self._failures = 0

    def _last_event_id(self) -> str | None:
        """Return the id after which the stream begins."""
        raise NotImplementedError

    def _read_event(self, message: ServerSentEvent) -> Any:
        """Return what a message stands for; None for a message that is not passed on."""
        raise NotImplementedError

    async def _read_rest(self) -> list[Any] | None:
        """Return what the stream has left out, after it has ended for good; None if it has only been interrupted."""
        return None

    async def events(self) -> AsyncGenerator[Any]:
        """Yield events until the stream has ended for good."""
        while True:
            opened_at, pause = self._settings.clock.monotonic(), None
            try:
                async with self._connection.stream(self._call, self._last_event_id()) as (head, pieces):
                    if head.status != 200:  # an error response
                        pause = self._pause_after(head)
                    else:
                        parser = EventStreamParser()
                        async for piece in pieces:
                            for message in parser.feed(piece):
                                if (event := self._read_event(message)) is not None:
                                    yield event
            except ConnectionLost as lost:
                self._count_failure(opened_at)
                if self._failures > self._settings.retries:
                    raise make_unreachable_error(self._call, self._settings.base_url, lost) from lost.__cause__
                pause = self._settings.pause(self._failures)
            if pause is None:  # the stream has ended
                rest = await self._read_rest()
                if rest is not None:
                    for event in rest:
                        yield event
                    return
                self._count_failure(opened_at)  # the server is stopping, or a proxy has closed the stream
                pause = self._settings.pause(min(self._failures, 5))
            await self._connection.sleep(pause)

    def _count_failure(self, opened_at: float) -> None:
        was_stable = self._settings.clock.monotonic() - opened_at > _STABLE_AFTER
        self._failures = 1 if was_stable else self._failures + 1

    def _pause_after(self, reply: Reply) -> float:
        """Return the seconds until the next attempt after an error response. Raises the error if it is not retried."""
        self._failures += 1
        pause = pause_after(reply, self._settings, self._failures)
        if pause is None or self._failures > self._settings.retries:
            raise make_error(reply, self._call)
        return pause


class RunFollower(Follower):
    """Follows a run, and yields every event once, in order, until it has ended."""

    def __init__(self, run_id: str, after: int, connection: Connection, *, live: bool = False) -> None:
        path = api_path("workflow-runs", run_id, "stream")
        super().__init__(get(path, read_data, {"live": True} if live else {}), connection)
        self._run_id = run_id
        self._last_seq = after

    def _last_event_id(self) -> str | None:
        return str(self._last_seq) if self._last_seq else None

    def _read_event(self, message: ServerSentEvent) -> Event | LiveEvent | None:
        """Return the event in a message; None if it was received before."""
        data = json.loads(message.data)
        if "seq" not in data:
            return LiveEvent.from_json(data)
        event = Event.from_json(data)
        return event if self._record(event) else None

    def _record(self, event: Event) -> bool:
        """Record that an event was received. Return False if it was received before."""
        if event.seq <= self._last_seq:
            return False
        self._last_seq, self._failures = event.seq, 0
        return True

    async def _read_rest(self) -> list[Event] | None:
        run: Any = await send(get(api_path("workflow-runs", self._run_id), read_data), self._connection)
        if run["status"] not in ENDED:
            return None
        rest: list[Event] = []
        while events := await self._fetch_new_events():
            rest += events
        return rest

    async def _fetch_new_events(self) -> list[Event]:
        params = {"after": self._last_seq, "pageSize": MAX_PAGE_SIZE}
        call = get(api_path("workflow-runs", self._run_id, "events"), Event.read_all, params)
        return [event for event in await send(call, self._connection) if self._record(event)]


class RunListFollower(Follower):
    """Follows all runs of the workspace, and yields each run that has changed, without end."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(get(api_path("workflow-runs", "stream"), read_data), connection)
        self._position: str | None = None
        self._versions: dict[str, int] = {}
        """The newest version of each run that was received, by id."""

    def _last_event_id(self) -> str | None:
        return self._position

    def _read_event(self, message: ServerSentEvent) -> Run | None:
        self._position, self._failures = message.id or self._position, 0
        if message.event != "run":
            return None
        run = Run.from_json(json.loads(message.data))
        if self._versions.get(run.id, 0) >= run.version:
            return None
        if run.has_ended:  # so that the map does not grow without end; a run that is retried may be yielded twice
            self._versions.pop(run.id, None)
        else:
            self._versions[run.id] = run.version
        return run


# -- server-sent events


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class EventStreamParser:
    """Parses the pieces of a stream into server-sent events."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_started = False
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that end in the next piece of the stream."""
        for line in self._split_lines(piece):
            if line:
                self._parse_line(line.decode("utf-8", "replace"))
            elif (message := self._take_event()) is not None:
                yield message

    def _split_lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete. They end with CR, LF or both; a final CR is kept, as an LF may follow."""
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

    def _take_event(self) -> ServerSentEvent | None:
        """Return the event that ends with an empty line, and start a new one. Return None if it has no data."""
        event, data = self._event, self._data
        self._event, self._data = "", []
        return ServerSentEvent(event or "message", "\n".join(data), self._id) if data else None
