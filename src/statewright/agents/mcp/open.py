"""Open connections with the MCP SDK, and detect when they end.

Only this module uses the transports of the SDK. It is imported when a server is first used.
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
"""The two streams of an SDK transport: incoming and outgoing messages."""
OnEnd = Callable[[Exception | None], None]
"""Called with the reason, or None if it is unknown, when the incoming stream has ended."""
_MAX_EVENT_BYTES: Final = 64 * 2**20
"""Maximum bytes of one event over streamable HTTP. The SDK's default is too small for images."""
_READ_TIMEOUT: Final = 86_400.0
"""Seconds without data after which an HTTP stream fails. It is so long because calls have their own timeouts."""


def open_client(server: McpServer, stderr: StderrTail, on_end: OnEnd, on_message: MessageHandlerFnT) -> Client:
    """Return a client, which connects when its `async with` block is entered.

    `on_message` receives messages that the server sends without a request. `on_end` is called when the connection ends.
    """
    return Client(with_end_detection(_streams(server, stderr, on_end), on_end), message_handler=on_message, cache=None)


@asynccontextmanager
async def with_end_detection(streams: AbstractAsyncContextManager[Streams], on_end: OnEnd) -> AsyncGenerator[Streams]:
    """Open the two streams of a transport, and report the end of the incoming stream to `on_end`."""
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
        pinned = _pinned_transport(transport.addresses)
        async with (
            httpx2.AsyncClient(headers=dict(transport.headers), timeout=timeout, transport=pinned) as client,
            streamable_http_client(transport.url, http_client=client, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
        ):
            yield streams
    else:
        async with sse_client(
            transport.url,
            dict(transport.headers),
            server.connect_timeout,
            sse_read_timeout=_READ_TIMEOUT,
            httpx_client_factory=partial(_create_sse_http_client, on_end, transport.addresses),
        ) as streams:
            yield streams


def _create_sse_http_client(
    on_end: OnEnd,
    addresses: Sequence[str],
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Create an HTTP client that reports to `on_end` when the server refuses a message.

    The SDK would wait forever for the answer to such a message.
    """

    async def report_refusal(response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.is_error:
            on_end(ConnectionError(f"a message was refused with {response.status_code} {response.reason_phrase}"))

    pinned, hooks = _pinned_transport(addresses), {"response": [report_refusal]}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=pinned, event_hooks=hooks)


def _pinned_transport(addresses: Sequence[str]) -> _PinnedTransport | None:
    return _PinnedTransport(addresses) if addresses else None


class _PinnedTransport(httpx2.AsyncHTTPTransport):
    """Connects only to IP addresses that were checked before, so that DNS rebinding has no effect.

    Certificates are still verified for the host name. Proxies that the environment sets are not used.
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
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):  # nothing was sent: try the next address
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
        encoding_error_handler="replace",  # a program that writes invalid UTF-8 must not be disconnected
    )
    async with AsyncExitStack() as stack:
        with stderr.pipe() as stderr_file:
            streams = await stack.enter_async_context(stdio_client(parameters, errlog=stderr_file))
        yield streams


class _IncomingStream:
    """Wraps an incoming stream of the SDK, and reports its end."""

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
        except BaseException:  # StopAsyncIteration, or a broken connection
            self._on_end(None)
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)
