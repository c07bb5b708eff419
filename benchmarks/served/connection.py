"""A minimal HTTP client, so that the figures show the cost of the server."""

import asyncio
import json
from typing import Any


class Connection:
    """A persistent connection to a server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any) -> Any:
        """Return the JSON of a response. Raises RuntimeError for an error response."""
        return await self._request("POST", path, json.dumps(body).encode())

    async def get(self, path: str) -> Any:
        return await self._request("GET", path, b"")

    async def _request(self, method: str, path: str, body: bytes) -> Any:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        content = await self._content(self._reader, answer)
        status = int(answer[9:12])
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {content[:500]!r}")
        return json.loads(content)

    async def _content(self, reader: asyncio.StreamReader, head: str) -> bytes:
        if "transfer-encoding: chunked" not in head:
            return await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
        parts: list[bytes] = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readexactly(2)
        return b"".join(parts)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def open_stream(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Request a stream of events, and return the connection once the response has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if int(head[9:12]) != 200:
        raise RuntimeError(f"GET {path}: {head.decode('latin-1')}")
    return reader, writer


async def stream(port: int, path: str, limit: int) -> int:
    """Read a stream of events until a number has arrived, and return the number."""
    reader, writer = await open_stream(port, path)
    count, tail = 0, b""
    while count < limit:
        part = await reader.read(2**18)
        if not part:
            break
        data = tail[-5:] + part  # the name of a field may be cut in two
        count += data.count(b"\ndata:") - tail[-5:].count(b"\ndata:")
        tail = data
    writer.close()
    return count
