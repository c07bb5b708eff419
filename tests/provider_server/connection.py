"""HTTP over one connection, without a library, so that it can be closed at any point."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tests.provider_server import chat_completions, generate_content, messages, responses
from tests.provider_server.answer import Answer, Cut, Failure, Raw, Reply

FORMS = {
    "/chat/completions": chat_completions,
    "/responses": responses,
    "/messages": messages,
    ":generateContent": generate_content,
    ":streamGenerateContent": generate_content,
}


class Connection:
    """Reads requests one after the other, and writes the reply to each."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reply: Callable[[Any], Reply],
        record: Callable[..., Any],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._reply = reply
        self._record = record
        self._early = b""

    async def serve(self) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await self._read()) is not None:
                answering = asyncio.ensure_future(self._write(self._reply(request), request))
                watching = asyncio.ensure_future(self._reader.read(1))
                await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() or _is_disconnected(answering):  # the client has disconnected
                    request.disconnected.set()
                    answering.cancel()
                    watching.cancel()
                    await asyncio.gather(answering, watching, return_exceptions=True)
                    return
                if not await answering:
                    return
                watching.cancel()
                await asyncio.wait({watching})
                # A fast client may have sent the first byte of its next request meanwhile.
                self._early = b"" if watching.cancelled() else watching.result()

    async def _read(self) -> Any:
        try:
            head = (self._early + await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = json.loads(await self._reader.readexactly(int(headers.get("content-length", 0))) or b"null")
        path = first.split(" ")[1]
        streamed = ":streamGenerateContent" in path or bool(body and body.get("stream"))
        return self._record(path, headers, body, streamed)

    async def _write(self, reply: Reply, request: Any) -> bool:
        """Write a reply. Return False if the connection is to be closed."""
        await asyncio.sleep(reply.delay)
        match reply:
            case Cut():
                return False
            case Failure():
                error = {"type": reply.kind, "code": reply.kind, "message": reply.message}
                body = json.dumps({"type": "error", "error": error}).encode()
                await self._whole(body, reply.status, reply.headers)
            case Raw():
                await self._whole(reply.octets, reply.status, {"content-type": reply.content_type, **reply.headers})
            case Answer():
                return await self._answer(reply, request)
        return True

    async def _answer(self, answer: Answer, request: Any) -> bool:
        path = request.path.partition("?")[0]
        form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
        if form is None:
            await self._whole(b'{"error": {"message": "no such endpoint"}}', 404, {})
            return True
        model = (request.body or {}).get("model") or path.rpartition("/")[2].partition(":")[0]
        if request.streamed:
            return await self._stream(answer, form.events(answer, model))
        await self._whole(json.dumps(form.body(answer, model)).encode(), 200, {})
        return True

    async def _whole(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        present = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        self._writer.write(_head(status, present) + body)
        await self._writer.drain()

    async def _stream(self, answer: Answer, events: Iterator[Any]) -> bool:
        """Write events in chunks. Return False if the connection is to be closed before the end."""
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, headers))
        for number, event in enumerate(events):
            encoded = _encode_event(event)
            if answer.cut_after == number or (answer.cut_before and answer.cut_before.encode() in encoded):
                await self._writer.drain()
                return False
            if answer.stop_after == number:
                break
            await asyncio.sleep(answer.pause)
            if answer.hold_before is not None and answer.hold_before[0].encode() in encoded:
                await asyncio.to_thread(answer.hold_before[1].wait)
            self._writer.write(_chunk(encoded))
            await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        return True


def _is_disconnected(task: asyncio.Future[Any]) -> bool:
    """Return whether the task has ended because the client closed the connection."""
    return not task.cancelled() and isinstance(task.exception(), ConnectionError)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _encode_event(event: Any) -> bytes:
    """Return a server-sent event; its name is the type of its data, if they have one."""
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()
