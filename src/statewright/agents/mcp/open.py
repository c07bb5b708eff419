"""Open connections with the SDK, and detect their end.

This is the only module that uses the SDK's transports. It is imported on first use of a server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Self

import httpx2
from mcp.client import Client
from mcp.client.session import MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from statewright.agents.mcp.server import McpServer, Stdio, StreamableHttp
from statewright.agents.mcp.texts import StderrTail

Streams = tuple[Any, Any]
"""The streams of the SDK's transports: incoming and outgoing messages."""
OnEnd = Callable[[Exception | None], None]
"""Called when the stream from the server has ended, with the reason if known."""
_MAX_EVENT_BYTES: Final = 64 * 2**20  # of one answer over streamable HTTP: the SDK's own limit is too small for images
_READ_TIMEOUT: Final = 86_400.0  # seconds that a stream over HTTP may be silent: calls have timeouts of their own


def open_client(server: McpServer, stderr: StderrTail, on_end: OnEnd, on_message: MessageHandlerFnT) -> Client:
    """Return a client, connected once it is entered. `on_message` receives unsolicited messages of the server."""
    return Client(with_end_detection(_streams(server, stderr, on_end), on_end), message_handler=on_message, cache=None)


@asynccontextmanager
async def with_end_detection(streams: AbstractAsyncContextManager[Streams], on_end: OnEnd) -> AsyncGenerator[Streams]:
    """Open streams of which the incoming one reports its end."""
    async with streams as (incoming, outgoing):
        yield _IncomingStream(incoming, on_end), outgoing


@asynccontextmanager
async def _streams(server: McpServer, stderr: StderrTail, on_end: OnEnd) -> AsyncGenerator[Streams]:
    transport = server.transport
    if isinstance(transport, Stdio):
        async with _start_program(transport, stderr) as streams:
            yield streams
    elif isinstance(transport, StreamableHttp):
        timeout = httpx2.Timeout(server.connect_timeout, read=_READ_TIMEOUT)
        pinned = _pinned(transport.addresses)
        async with (
            httpx2.AsyncClient(headers=dict(transport.headers), timeout=timeout, transport=pinned) as client,
            streamable_http_client(transport.url, http_client=client, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
        ):
            yield streams
    else:
        headers, timeout = dict(transport.headers), server.connect_timeout
        clients = partial(_create_http_client, on_end, transport.addresses)
        opened = sse_client(
            transport.url, headers, timeout, sse_read_timeout=_READ_TIMEOUT, httpx_client_factory=clients
        )
        async with opened as streams:
            yield streams


def _create_http_client(
    on_end: OnEnd,
    addresses: Sequence[str],
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Create the HTTP client of the SSE transport, which reports refused messages: the SDK would wait forever."""

    async def check(response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.is_error:
            on_end(ConnectionError(f"a message was refused with {response.status_code} {response.reason_phrase}"))

    pinned, hooks = _pinned(addresses), {"response": [check]}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=pinned, event_hooks=hooks)


def _pinned(addresses: Sequence[str]) -> _PinnedTransport | None:
    return _PinnedTransport(addresses) if addresses else None


class _PinnedTransport(httpx2.AsyncHTTPTransport):
    """Connects to addresses that were checked before, so DNS rebinding has no effect.

    Certificates are still verified for the host's name. Proxies of the environment are not used.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()
        self._addresses = addresses

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        try:
            for address in self._addresses[:-1]:
                request.url = url.copy_with(host=address)
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):  # nothing was sent: try the next one
                    return await super().handle_async_request(request)
            request.url = url.copy_with(host=self._addresses[-1])
            return await super().handle_async_request(request)
        finally:
            request.url = url


@asynccontextmanager
async def _start_program(transport: Stdio, stderr: StderrTail) -> AsyncGenerator[Streams]:
    parameters = StdioServerParameters(
        command=transport.command,
        args=list(transport.args),
        env=transport.environment(),
        cwd=transport.cwd,
        encoding_error_handler="replace",  # invalid text is not a message, and no reason to disconnect
    )
    async with AsyncExitStack() as stack:
        with stderr.pipe() as errors:
            streams = await stack.enter_async_context(stdio_client(parameters, errlog=errors))
        yield streams


class _IncomingStream:
    """An incoming stream, as the SDK reads it, that reports its end."""

    def __init__(self, stream: Any, on_end: OnEnd) -> None:
        self._stream = stream
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:  # the end, or a connection that broke
            self._on_end(None)
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)
